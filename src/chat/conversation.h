// Requests for a rendering, as JSON.
#pragma once

#include <string>
#include <string_view>

#include "chat/template.h"

namespace hadal {

// Reads {"messages": [...], "tools": [...], "documents": [...], "add_generation_prompt": bool,
// "extra": {...}}; all but `messages` may be absent. Messages are objects with a string `role` and
// a `content` that is a string, null, absent or an array of parts, which stay as they are. Throws
// Error(kInvalid) that names the place, e.g. "chat.json: messages[2].role is not a string", and
// Error(kBadFile) when `text` is not JSON. `source` stands in front of every message.
ChatInput ParseChatInput(std::string_view text, const std::string& source);

// The checks of ParseChatInput on the messages alone, for callers that have them already.
void CheckMessages(const OrderedJson& messages, const std::string& source);

}  // namespace hadal
