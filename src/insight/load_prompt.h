// Texts of a wanted length for a load.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "insight/load_trace.h"
#include "tokenizer/tokenizer.h"

namespace hadal::load {

// Makes prompts of random common words: the same for the same seed, item and index.
class PromptMaker {
 public:
  // With a tokenizer, which must outlive this, prompts have exactly the wanted length in its
  // tokens (with BOS where it adds one). Without, a word counts as one token until Calibrate.
  explicit PromptMaker(uint64_t seed, const Tokenizer* tokenizer = nullptr);

  // What a server counted for prompts of `words` words: tokens = overhead + slope * words.
  void Calibrate(double slope, double overhead);

  // The prompt of the index-th request. Items with the same prefix begin with the same words.
  std::string Make(const TraceItem& item, size_t index) const;
  // A prompt of that many words, for calibration.
  std::string Words(size_t n) const;

 private:
  // How many words of the list stand for `tokens` tokens.
  size_t WordsFor(double tokens) const;
  void Append(std::mt19937_64& random, size_t n, std::string& text) const;
  // Adds or takes words until the text has exactly `tokens` tokens, as near as it can be.
  void Fit(std::mt19937_64& random, uint32_t tokens, std::string& text) const;

  uint64_t seed_;
  const Tokenizer* tokenizer_;
  std::vector<std::string_view> words_;
  double slope_ = 1, overhead_ = 0;
};

}  // namespace hadal::load
