#include "api/completion_request.h"

#include <fmt/core.h>

#include "api/api_error.h"

namespace hadal::api {
namespace {

constexpr size_t kMaxPrompts = 1024;
constexpr uint32_t kDefaultMaxTokens = 16;

std::vector<CompletionRequest::Prompt> ReadPrompts(Fields& fields, uint32_t vocab) {
  const OrderedJson* prompt = fields.Find("prompt");
  if (prompt == nullptr) fields.Refuse("prompt", "is missing", "missing_required_parameter");
  if (prompt->is_string()) return {prompt->get<std::string>()};
  if (!prompt->is_array()) {
    fields.Refuse("prompt", "must be a string, token ids, or a list of either", "invalid_type");
  }
  if (prompt->empty()) fields.Refuse("prompt", "is an empty list");
  if (prompt->front().is_number()) return {TokenIdsOf(*prompt, vocab, "prompt")};
  if (prompt->size() > kMaxPrompts) {
    fields.Refuse("prompt", fmt::format("has {} entries; at most {} are allowed", prompt->size(),
                                        kMaxPrompts));
  }
  std::vector<CompletionRequest::Prompt> prompts;
  for (size_t i = 0; i < prompt->size(); ++i) {
    const OrderedJson& entry = (*prompt)[i];
    const std::string where = fmt::format("prompt[{}]", i);
    if (entry.is_string()) {
      prompts.emplace_back(entry.get<std::string>());
    } else {
      prompts.emplace_back(TokenIdsOf(entry, vocab, where));
    }
  }
  return prompts;
}

// The older form: the number alone asks for logprobs.
void ReadLogprobs(Fields& fields, SamplingParams& sampling) {
  const OrderedJson* value = fields.Find("logprobs");
  if (value == nullptr) return;
  if (const auto count = fields.Integer("logprobs", 0, kMaxLogprobs)) {
    sampling.logprobs = static_cast<int32_t>(*count);
  }
}

// best_of picks the best of several answers; without it n says all.
void ReadBestOf(Fields& fields, const GenerationParams& params) {
  const auto best_of = fields.Integer("best_of", 1, kMaxChoices);
  if (best_of && *best_of != params.n) {
    fields.Refuse("best_of", "is not supported: ask for n choices", "unsupported_value");
  }
}

}  // namespace

CompletionRequest ReadCompletionRequest(const OrderedJson& body, const ParamContext& context) {
  Fields fields(body, "");
  CompletionRequest request;
  request.model = fields.String("model").value_or("");
  request.prompts = ReadPrompts(fields, context.vocab);
  request.suffix = fields.String("suffix");
  if (request.suffix && request.suffix->empty()) request.suffix.reset();
  request.echo = fields.Bool("echo").value_or(false);
  request.add_special_tokens = fields.Bool("add_special_tokens").value_or(true);
  request.params = ReadGenerationParams(fields, context, request.warnings);
  ReadLogprobs(fields, request.params.sampling);
  ReadBestOf(fields, request.params);
  request.default_max_tokens = !request.params.max_tokens;
  if (request.default_max_tokens) request.params.max_tokens = kDefaultMaxTokens;
  if (request.suffix && request.echo) {
    fields.Refuse("echo", "has no meaning together with suffix");
  }
  if (*request.params.max_tokens == 0 && !request.echo) {
    fields.Refuse("max_tokens", "is 0, which is only useful with \"echo\": true");
  }
  if (request.echo && request.params.stream && request.params.sampling.logprobs >= 0) {
    fields.Refuse("echo", "is not available with both logprobs and \"stream\": true");
  }
  fields.String("user");
  request.unknown = fields.Unread();
  return request;
}

}  // namespace hadal::api
