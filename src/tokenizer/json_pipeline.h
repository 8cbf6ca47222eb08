// The normalizer, pre_tokenizer and decoder members of tokenizer.json.
#pragma once

#include "base/json.h"
#include "tokenizer/tokenizer_parts.h"

namespace hadal {

// GPT-2's pattern, which ByteLevel applies when use_regex is set.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// `json` may be null (no such member): then nothing is added. All throw Error(kUnsupported) naming
// a type or setting we do not have, Error(kBadFile) on a malformed member.
void ReadNormalizer(const Json* json, Normalizer* normalizer);
// Sets *byte_level when the last step is ByteLevel.
void ReadPreTokenizer(const Json* json, PreTokenizer* pre_tokenizer, bool* byte_level);
void ReadDecoder(const Json* json, Decoder* decoder);

}  // namespace hadal
