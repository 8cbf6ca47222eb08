// Decoding while the model still generates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tokenizer/decoder.h"
#include "tokenizer/tokenizer.h"

namespace hadal {

// One generated text. The pieces that Push() and Flush() return, put together, are exactly
// Tokenizer::Decode() of all ids; each of them is well-formed UTF-8, never half a character.
// A value, for one thread; the tokenizer must outlive it.
class IncrementalDecoder {
 public:
  // `keep`: special tokens that are not left out even when `skip_special`.
  explicit IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special = false,
                              std::vector<int32_t> keep = {});

  // The text that has become certain with this token; often empty inside a character.
  std::string Push(int32_t id);

  // The rest, U+FFFD for a character that was never completed. Nothing may be pushed afterwards.
  std::string Flush();

 private:
  const Tokenizer::Impl* tokenizer_;
  bool skip_special_;
  std::vector<int32_t> keep_;
  DecodeStream stream_;
};

}  // namespace hadal
