// A tokenizer.json from outside, then a text: the first zero byte parts them. Whatever they are,
// the answer is an Error or tokens that decode, in steps and at once, to the same text.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/incremental_decoder.h"
#include "tokenizer/tokenizer.h"

namespace {

void Run(std::string_view json, std::string_view text) {
  hadal::Vocabulary vocabulary;
  vocabulary.source = "fuzz";
  vocabulary.tokenizer_json = json;
  const hadal::Tokenizer tokenizer = hadal::Tokenizer::Create(vocabulary);
  const std::vector<int32_t> ids = tokenizer.Encode(text);
  const std::vector<hadal::EncodedToken> tokens = tokenizer.EncodeWithOffsets(text);
  HADAL_CHECK(ids.size() == tokens.size());
  hadal::IncrementalDecoder decoder(tokenizer);
  std::string steps;
  for (size_t i = 0; i < ids.size(); ++i) {
    HADAL_CHECK(ids[i] == tokens[i].id);
    HADAL_CHECK(tokens[i].begin <= tokens[i].end && tokens[i].end <= text.size());
    steps += decoder.Push(ids[i]);
    tokenizer.TokenBytes(ids[i]);
  }
  steps += decoder.Flush();
  HADAL_CHECK(steps == tokenizer.Decode(ids));
  HADAL_CHECK(hadal::FindInvalidUtf8(steps) == std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), size);
  try {
    Run(input.substr(0, end), input.substr(std::min(end + 1, size)));
  } catch (const hadal::Error&) {
    // Refused, as it should be.
  }
  return 0;
}
