// From a request to the tokens that the model is given.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "api/chat_request.h"
#include "api/completion_request.h"
#include "api/served_model.h"
#include "chat/marked_text.h"

namespace hadal::api {

// A conversation through the model's template. With `continues` the text ends with the last
// message, which the model goes on writing. Throws ApiError(400): the template refuses the
// conversation, or there is none.
MarkedText RenderChat(const ChatRequest& request, const ServedModel& model, std::time_t now);

// Throws ApiError(400, "context_length_exceeded") for a text that cannot fit, however it is
// tokenized: nobody waits for the tokenizer to find out.
void CheckLength(size_t text_bytes, const ServedModel& model);

// The tokens of a prompt. With `suffix`: between the model's fill-in-the-middle tokens; throws
// ApiError(400) when it has none.
std::vector<int32_t> BuildCompletionPrompt(const CompletionRequest::Prompt& prompt,
                                           const CompletionRequest& request,
                                           const ServedModel& model);

// Looks for the tokens of the DeepSeek, Qwen and StarCoder families.
FimTokens FindFimTokens(const Tokenizer& tokenizer);

}  // namespace hadal::api
