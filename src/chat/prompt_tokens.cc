#include "chat/prompt_tokens.h"

#include "base/json.h"

namespace hadal {
namespace {

// The string of a special token, which tokenizer_config.json writes as text or as an object.
void AddToken(const Json& config, const char* key, std::map<std::string, std::string>& tokens) {
  const auto field = config.find(key);
  if (field == config.end()) return;
  if (field->is_string()) {
    tokens[key] = field->get<std::string>();
  } else if (field->is_object() && field->contains("content") && field->at("content").is_string()) {
    tokens[key] = field->at("content").get<std::string>();
  }
}

}  // namespace

std::map<std::string, std::string> SpecialTokens(const Vocabulary& vocabulary,
                                                 const Tokenizer& tokenizer) {
  std::map<std::string, std::string> tokens;
  if (tokenizer.bos_id() >= 0) tokens["bos_token"] = tokenizer.Piece(tokenizer.bos_id());
  if (tokenizer.eos_id() >= 0) tokens["eos_token"] = tokenizer.Piece(tokenizer.eos_id());
  if (vocabulary.tokenizer_config_json.empty()) return tokens;
  const Json config = ParseJson(vocabulary.tokenizer_config_json, "tokenizer_config.json");
  for (const char* key : {"bos_token", "eos_token", "pad_token", "unk_token"}) {
    if (config.is_object()) AddToken(config, key, tokens);
  }
  return tokens;
}

std::vector<int32_t> EncodeMarked(const Tokenizer& tokenizer, const MarkedText& text) {
  return tokenizer.Encode(text.text, {.add_bos = false, .data_ranges = text.data_ranges});
}

}  // namespace hadal
