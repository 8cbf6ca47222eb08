// What a tokenizer is made of, whichever file it was read from.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "spec/vocabulary.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/decoder.h"
#include "tokenizer/model.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/piece_table.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace hadal {

struct TokenizerParts {
  std::unique_ptr<PieceTable> pieces = std::make_unique<PieceTable>();  // of the model
  std::vector<AddedToken> added_tokens;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<Model> model;  // refers to *pieces
  bool byte_level = false;
  Decoder decoder;
  std::vector<int32_t> prefix;  // what the tokenizer puts before a text: BOS
  std::vector<int32_t> suffix;
  int32_t bos_id = -1;
  int32_t eos_id = -1;
  TokenizerFacts facts;
};

// From Hugging Face's tokenizer.json, parsed, and tokenizer_config.json.
TokenizerParts ReadTokenizerJson(const Json& root, const Vocabulary& vocabulary);

// From GGUF's tokenizer.ggml.* fields.
TokenizerParts ReadGgufVocabulary(const Vocabulary& vocabulary);

}  // namespace hadal
