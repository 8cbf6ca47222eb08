// The body of POST /chat/completions.
#pragma once

#include <string>
#include <vector>

#include "api/generation_params.h"
#include "chat/history.h"

namespace hadal::api {

struct ChatRequest {
  std::string model;
  OrderedJson messages;  // as the chat template takes them
  OrderedJson tools;     // null when there are none, or tool_choice forbids them
  OrderedJson template_variables = OrderedJson::object();
  // The last message is an assistant's, to be continued: DeepSeek's "prefix", vLLM's
  // continue_final_message.
  bool continues = false;
  bool add_generation_prompt = true;
  bool parallel_tool_calls = true;
  bool asks_to_think = false;  // in so many words, not by the model's name alone
  GenerationParams params;     // sampling.logprobs is set
  std::vector<std::string> warnings;
  std::vector<std::string> unknown;  // members that mean nothing here
};

// What the template sees of thinking, the stronger before the weaker: chat_template_kwargs,
// `thinking`, `reasoning_effort`, the model's alias; nothing where none of them speaks.
// Throws ApiError(400).
ChatRequest ReadChatRequest(const OrderedJson& body, const ParamContext& context,
                            const HistoryStyle& style);

}  // namespace hadal::api
