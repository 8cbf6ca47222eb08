// Tokens that are found in the text as they stand, before any rule of the model applies.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/aligned_text.h"
#include "tokenizer/byte_trie.h"
#include "tokenizer/normalizer.h"

namespace hadal {

// The flags mean what they mean in tokenizer.json.
struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool single_word = false;  // not inside a word
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and behind it
  bool normalized = false;   // is looked for in the normalised text, normalised itself
  bool special = false;      // left out when decoding without special tokens
};

// Part of a text: an added token (id >= 0) or what lies between them.
struct Section {
  Span range;
  int32_t id = -1;
};

// Immutable after construction; thread-safe.
class AddedTokens {
 public:
  AddedTokens() = default;
  // Contents are not empty, ids distinct.
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer);

  const AddedToken* Find(int32_t id) const;
  // -1 when absent.
  int32_t Find(std::string_view content) const;
  size_t size() const { return tokens_.size(); }
  // Memory it takes: the tokens, two maps of them, two tries.
  size_t bytes() const;
  bool has_normalized() const { return !normalized_.empty(); }

  // Cuts `text` at the leftmost, longest tokens: those with normalized() == `normalized`. No token
  // is found that would take in a byte whose origin lies in `data` (sorted, disjoint ranges of the
  // input): a shorter one may be found in its place, and strip flags stop there.
  std::vector<Section> Split(const AlignedText& text, bool normalized,
                             std::span<const ByteRange> data) const;

 private:
  bool IsWord(std::string_view text, size_t pos) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<int32_t, size_t> by_id_;
  std::unordered_map<std::string, int32_t> by_content_;
  ByteTrie raw_;  // values are indices of tokens_
  ByteTrie normalized_;
  std::optional<Regex> word_;  // only when a token needs it
};

}  // namespace hadal
