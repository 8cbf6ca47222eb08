// Pieces of JSON that the replies of both completion routes share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/choice.h"
#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace hadal::api {

struct UsageTotals {
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;  // of those, taken from KV computed before
  uint64_t completion_tokens = 0;
  uint64_t reasoning_tokens = 0;
};

// OpenAI's usage object with DeepSeek's cache counters.
OrderedJson UsageJson(const UsageTotals& usage);

// JSON has no infinity: -infinity becomes -9999.
double FiniteLogprob(double logprob);

// {"content": [...], "reasoning_content": [...]}: the tokens of thoughts stand in the second, which
// is there only when there are any.
OrderedJson ChatLogprobs(const std::vector<TokenEntry>& tokens, const Tokenizer& tokenizer);

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}, the older parallel lists.
class CompletionLogprobs {
 public:
  explicit CompletionLogprobs(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // A token without a value: the first of a prompt.
  void AddUnscored(int32_t token, size_t text_offset);
  void Add(const TokenLogprobs& logprobs, size_t text_offset);
  OrderedJson Json() const;

 private:
  const Tokenizer& tokenizer_;
  OrderedJson tokens_ = OrderedJson::array(), token_logprobs_ = OrderedJson::array(),
              top_logprobs_ = OrderedJson::array(), text_offset_ = OrderedJson::array();
};

// vLLM's prompt_logprobs: per token an object of token ids with logprob, rank and text; null for
// the first.
OrderedJson PromptLogprobsJson(const std::vector<TokenLogprobs>& logprobs,
                               const Tokenizer& tokenizer);

// A token as a reader sees it; half a character becomes U+FFFD.
std::string TokenText(const Tokenizer& tokenizer, int32_t token);

size_t CountCharacters(std::string_view utf8);

}  // namespace hadal::api
