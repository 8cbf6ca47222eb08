// Earlier messages as clients send them, made into what a template can render.
#pragma once

#include <map>
#include <string>

#include "base/json.h"
#include "chat/template.h"

namespace hadal {

// How a template wants tool calls, found by rendering small conversations with it.
struct HistoryStyle {
  // `arguments` as an object; as JSON text otherwise.
  bool argument_objects = false;
  // An assistant message with calls has `content` null when it has no text; "" otherwise.
  bool null_content = false;
  // A message with both text and calls loses its calls: it becomes two messages.
  bool split_text_and_calls = false;
};

// Never throws: for a template without tool calls the defaults do. Thread-safe; costs a few
// renderings, so keep the result.
HistoryStyle ProbeHistoryStyle(const ChatTemplate& program,
                               const std::map<std::string, std::string>& special_tokens);

// Returns `messages` with these changes, all others as they are:
//  - role "developer" becomes "system", role "function" a "tool", `function_call` a tool call;
//  - content parts (text, refusal) become one text, joined by newlines; others are an error;
//  - null members are dropped, but for `content`; so are empty tool_calls. A missing content is "";
//  - assistant messages: `reasoning` becomes `reasoning_content` (which wins if both are there);
//    without either, a leading <think>...</think> of the content does;
//  - tool calls: arguments as `style` says. JSON text is kept byte for byte where text is wanted,
//    text that is not a JSON object is kept where an object is wanted; missing ones are {}. A
//    missing `type` is "function".
// Throws Error(kInvalid) that names the place, e.g. "request: messages[2].tool_calls[0].function
// is missing". `source` stands in front of every message.
OrderedJson PrepareMessages(const OrderedJson& messages, const HistoryStyle& style,
                            const std::string& source);

}  // namespace hadal
