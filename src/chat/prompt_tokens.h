// Between a rendered chat template and the tokenizer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "chat/marked_text.h"
#include "spec/vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace hadal {

// bos_token, eos_token, pad_token and unk_token as templates may use them: the tokenizer's, where
// tokenizer_config.json does not say otherwise. Throws Error(kBadFile) when that is not JSON.
std::map<std::string, std::string> SpecialTokens(const Vocabulary& vocabulary,
                                                 const Tokenizer& tokenizer);

// What a user says reaches the model as data: it never becomes a control token. The template, not
// the tokenizer, decides on BOS.
std::vector<int32_t> EncodeMarked(const Tokenizer& tokenizer, const MarkedText& text);

}  // namespace hadal
