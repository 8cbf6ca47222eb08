// The pre-tokenizers that GGUF files name in tokenizer.ggml.pre.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hadal {

struct GgufPreTokenizer {
  std::string_view name;
  // Each is a Split with behaviour Isolated, one after the other.
  std::span<const std::string_view> patterns;
  bool nfc = false;            // the original normalises to NFC, which GGUF cannot say
  bool ignore_merges = false;  // so does this
  bool adds_bos = false;       // where the file does not say
};

// Null when unknown.
const GgufPreTokenizer* FindGgufPreTokenizer(std::string_view name);

// For messages.
std::vector<std::string> GgufPreTokenizerNames();

}  // namespace hadal
