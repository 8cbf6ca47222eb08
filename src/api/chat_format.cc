#include "api/chat_format.h"

#include <utility>

namespace hadal::api {
namespace {

void PutThought(const std::string& thought, const ChatFormatOptions& options,
                OrderedJson& message) {
  message["reasoning_content"] = thought;
  if (options.reasoning_alias) message["reasoning"] = thought;
}

OrderedJson WholeCalls(const std::vector<ToolCallDelta>& calls) {
  OrderedJson list = OrderedJson::array();
  for (const ToolCallDelta& call : calls) {
    list.push_back({{"index", call.index},
                    {"id", call.id},
                    {"type", "function"},
                    {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return list;
}

// Id, type and name stand in the first part of a call alone: clients concatenate what comes twice.
OrderedJson PartialCalls(const std::vector<ToolCallDelta>& calls) {
  OrderedJson list = OrderedJson::array();
  for (const ToolCallDelta& call : calls) {
    OrderedJson json = {{"index", call.index}};
    OrderedJson function = OrderedJson::object();
    if (!call.id.empty()) {
      json["id"] = call.id;
      json["type"] = "function";
      function["name"] = call.name;
    }
    function["arguments"] = call.arguments;
    json["function"] = std::move(function);
    list.push_back(std::move(json));
  }
  return list;
}

OrderedJson WholeMessage(const ChoiceDelta& whole, const ChatFormatOptions& options) {
  OrderedJson message = {
      {"role", "assistant"}, {"content", whole.output.content}, {"refusal", nullptr}};
  if (!whole.output.reasoning.empty()) PutThought(whole.output.reasoning, options, message);
  if (!whole.output.tool_calls.empty()) {
    message["tool_calls"] = WholeCalls(whole.output.tool_calls);
  }
  return message;
}

}  // namespace

ChatFormat::ChatFormat(ReplyHead head, const ChatFormatOptions& options, const Tokenizer& tokenizer)
    : head_(std::move(head)), options_(options), tokenizer_(tokenizer) {}

OrderedJson ChatFormat::Whole(const Generation& generation,
                              const std::vector<ChoiceDelta>& choices) const {
  OrderedJson list = OrderedJson::array();
  for (uint32_t i = 0; i < choices.size(); ++i) {
    const ChoiceDelta& whole = choices[i];
    OrderedJson logprobs = nullptr;
    if (options_.logprobs) {
      logprobs = ChatLogprobs(whole.tokens, tokenizer_);
    }
    list.push_back({{"index", i},
                    {"message", WholeMessage(whole, options_)},
                    {"logprobs", std::move(logprobs)},
                    {"finish_reason", generation.choice(i).finish_reason()},
                    {"stop_reason", generation.choice(i).stop_reason()}});
  }
  OrderedJson reply = head_.Json("chat.completion");
  reply["choices"] = std::move(list);
  if (generation.wants_prompt_logprobs()) {
    reply["prompt_logprobs"] = PromptLogprobsJson(generation.prompt_logprobs(0), tokenizer_);
  }
  reply["usage"] = UsageJson(generation.usage());
  return reply;
}

OrderedJson ChatFormat::Chunk(OrderedJson choice) const {
  return head_.Chunk("chat.completion.chunk", std::move(choice), options_.include_usage);
}

std::optional<OrderedJson> ChatFormat::Begin(const Generation&, uint32_t choice) {
  return Chunk({{"index", choice},
                {"delta", {{"role", "assistant"}, {"content", ""}}},
                {"logprobs", nullptr},
                {"finish_reason", nullptr}});
}

OrderedJson ChatFormat::Delta(uint32_t choice, const ChoiceDelta& delta) {
  OrderedJson json = OrderedJson::object();
  if (!delta.output.reasoning.empty()) PutThought(delta.output.reasoning, options_, json);
  if (!delta.output.content.empty()) json["content"] = delta.output.content;
  if (!delta.output.tool_calls.empty()) json["tool_calls"] = PartialCalls(delta.output.tool_calls);
  OrderedJson logprobs = nullptr;
  if (options_.logprobs && !delta.tokens.empty()) {
    logprobs = ChatLogprobs(delta.tokens, tokenizer_);
  }
  return Chunk({{"index", choice},
                {"delta", std::move(json)},
                {"logprobs", std::move(logprobs)},
                {"finish_reason", nullptr}});
}

OrderedJson ChatFormat::End(uint32_t choice, const Choice& ended) const {
  return Chunk({{"index", choice},
                {"delta", OrderedJson::object()},
                {"logprobs", nullptr},
                {"finish_reason", ended.finish_reason()},
                {"stop_reason", ended.stop_reason()}});
}

OrderedJson ChatFormat::Usage(const UsageTotals& usage) const {
  OrderedJson chunk = Chunk(nullptr);
  chunk["usage"] = UsageJson(usage);
  return chunk;
}

}  // namespace hadal::api
