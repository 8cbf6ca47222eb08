#pragma once

#include <string_view>

#include "tokenizer/added_tokens.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_parts.h"

namespace hadal {

struct Tokenizer::Impl {
  explicit Impl(TokenizerParts p);

  // The added token's content, or the model's piece; empty when the id has neither.
  std::string_view Piece(int32_t id) const;
  bool Has(int32_t id) const;
  bool IsSpecial(int32_t id) const;

  TokenizerParts parts;
  AddedTokens added;
  int32_t vocab_size = 0;
};

}  // namespace hadal
