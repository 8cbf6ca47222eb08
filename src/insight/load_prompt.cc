#include "insight/load_prompt.h"

#include <algorithm>
#include <cmath>

namespace hadal::load {
namespace {

// Each is one token in the vocabularies of most models.
constexpr std::string_view kWords[] = {
    "the",   "and",   "that",   "have",  "with",  "this", "from",  "they", "will",  "would",
    "there", "their", "what",   "about", "which", "when", "make",  "like", "time",  "just",
    "know",  "take",  "people", "into",  "year",  "your", "good",  "some", "could", "them",
    "see",   "other", "than",   "then",  "now",   "look", "only",  "come", "its",   "over",
    "think", "also",  "back",   "after", "use",   "two",  "how",   "our",  "work",  "first",
    "well",  "way",   "even",   "new",   "want",  "any",  "these", "give", "day",   "most"};

std::mt19937_64 Stream(uint64_t seed, uint32_t kind, uint64_t number) {
  std::seed_seq sequence{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), kind,
                         static_cast<uint32_t>(number)};
  return std::mt19937_64(sequence);
}

}  // namespace

PromptMaker::PromptMaker(uint64_t seed, const Tokenizer* tokenizer)
    : seed_(seed), tokenizer_(tokenizer) {
  for (const std::string_view word : kWords) {
    const std::string once = "the " + std::string(word), twice = once + " " + std::string(word);
    if (tokenizer == nullptr ||
        tokenizer->Encode(twice).size() == tokenizer->Encode(once).size() + 1) {
      words_.push_back(word);
    }
  }
  if (words_.empty()) words_.assign(std::begin(kWords), std::end(kWords));
}

void PromptMaker::Calibrate(double slope, double overhead) {
  slope_ = std::max(slope, 0.01);
  overhead_ = overhead;
}

size_t PromptMaker::WordsFor(double tokens) const {
  return static_cast<size_t>(std::max(1.0, std::round((tokens - overhead_) / slope_)));
}

void PromptMaker::Append(std::mt19937_64& random, size_t n, std::string& text) const {
  for (; n > 0; --n) {
    if (!text.empty()) text += ' ';
    text += words_[static_cast<size_t>(Uniform01(random) * static_cast<double>(words_.size()))];
  }
}

void PromptMaker::Fit(std::mt19937_64& random, uint32_t tokens, std::string& text) const {
  // A vocabulary without whole words needs a few rounds; most are right after one.
  for (int round = 0; round < 64; ++round) {
    const size_t now = tokenizer_->Encode(text).size();
    if (now == tokens) return;
    if (now < tokens) {
      Append(random, std::max<size_t>(1, (tokens - now) / 4), text);
      continue;
    }
    const size_t cut = text.find_last_of(' ');
    if (cut == std::string::npos) return;
    text.resize(cut);
    if (tokenizer_->Encode(text).size() < tokens) {
      while (tokenizer_->Encode(text).size() < tokens) text += " a";
      return;
    }
  }
}

std::string PromptMaker::Make(const TraceItem& item, size_t index) const {
  std::string text;
  size_t n_prefix = 0;
  const size_t n_words = WordsFor(item.input_tokens);
  if (item.prefix) {
    std::mt19937_64 random = Stream(seed_, 1, *item.prefix);
    n_prefix = std::min(n_words, WordsFor(item.prefix_tokens));
    Append(random, n_prefix, text);
  }
  std::mt19937_64 random = Stream(seed_, 2, index);
  Append(random, n_words - n_prefix, text);
  if (tokenizer_ != nullptr) Fit(random, item.input_tokens, text);
  return text;
}

std::string PromptMaker::Words(size_t n) const {
  std::string text;
  std::mt19937_64 random = Stream(seed_, 3, n);
  Append(random, n, text);
  return text;
}

}  // namespace hadal::load
