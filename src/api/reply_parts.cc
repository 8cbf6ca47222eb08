#include "api/reply_parts.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"

namespace hadal::api {
namespace {

constexpr double kLowestLogprob = -9999.0;

OrderedJson BytesOf(const std::string& bytes) {
  OrderedJson list = OrderedJson::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return list;
}

OrderedJson ChatToken(const TokenLogprob& token, const Tokenizer& tokenizer) {
  return {{"token", TokenText(tokenizer, token.token)},
          {"logprob", FiniteLogprob(token.logprob)},
          {"bytes", BytesOf(tokenizer.TokenBytes(token.token))}};
}

}  // namespace

OrderedJson UsageJson(const UsageTotals& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_cache_hit_tokens", usage.cached_tokens},
          {"prompt_cache_miss_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}}};
}

double FiniteLogprob(double logprob) {
  return std::isfinite(logprob) ? std::max(logprob, kLowestLogprob) : kLowestLogprob;
}

OrderedJson ChatLogprobs(const std::vector<TokenEntry>& tokens, const Tokenizer& tokenizer) {
  OrderedJson content = OrderedJson::array(), reasoning = OrderedJson::array();
  for (const TokenEntry& entry : tokens) {
    OrderedJson json = ChatToken(entry.logprobs.chosen, tokenizer);
    json["top_logprobs"] = OrderedJson::array();
    for (const TokenLogprob& other : entry.logprobs.top) {
      json["top_logprobs"].push_back(ChatToken(other, tokenizer));
    }
    (entry.in_thought ? reasoning : content).push_back(std::move(json));
  }
  OrderedJson result = {{"content", std::move(content)}};
  if (!reasoning.empty()) result["reasoning_content"] = std::move(reasoning);
  result["refusal"] = nullptr;
  return result;
}

void CompletionLogprobs::AddUnscored(int32_t token, size_t text_offset) {
  tokens_.push_back(TokenText(tokenizer_, token));
  token_logprobs_.push_back(nullptr);
  top_logprobs_.push_back(nullptr);
  text_offset_.push_back(text_offset);
}

void CompletionLogprobs::Add(const TokenLogprobs& logprobs, size_t text_offset) {
  tokens_.push_back(TokenText(tokenizer_, logprobs.chosen.token));
  token_logprobs_.push_back(FiniteLogprob(logprobs.chosen.logprob));
  OrderedJson top = OrderedJson::object();
  for (const TokenLogprob& other : logprobs.top) {
    // Two tokens may look alike (halves of characters): the more likely one keeps its place.
    top.emplace(TokenText(tokenizer_, other.token), FiniteLogprob(other.logprob));
  }
  top.emplace(TokenText(tokenizer_, logprobs.chosen.token), FiniteLogprob(logprobs.chosen.logprob));
  top_logprobs_.push_back(std::move(top));
  text_offset_.push_back(text_offset);
}

OrderedJson CompletionLogprobs::Json() const {
  return {{"tokens", tokens_},
          {"token_logprobs", token_logprobs_},
          {"top_logprobs", top_logprobs_},
          {"text_offset", text_offset_}};
}

OrderedJson PromptLogprobsJson(const std::vector<TokenLogprobs>& logprobs,
                               const Tokenizer& tokenizer) {
  OrderedJson list = OrderedJson::array({nullptr});
  for (const TokenLogprobs& entry : logprobs) {
    OrderedJson json = OrderedJson::object();
    const auto add = [&](const TokenLogprob& token, uint32_t rank) {
      json.emplace(std::to_string(token.token),
                   OrderedJson{{"logprob", FiniteLogprob(token.logprob)},
                               {"rank", rank},
                               {"decoded_token", TokenText(tokenizer, token.token)}});
    };
    add(entry.chosen, entry.rank);
    for (uint32_t i = 0; i < entry.top.size(); ++i) add(entry.top[i], i + 1);
    list.push_back(std::move(json));
  }
  return list;
}

std::string TokenText(const Tokenizer& tokenizer, int32_t token) {
  return ReplaceInvalidUtf8(tokenizer.TokenBytes(token));
}

size_t CountCharacters(std::string_view utf8) {
  return static_cast<size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace hadal::api
