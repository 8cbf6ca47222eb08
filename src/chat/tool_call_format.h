// How models write tool calls into their answers, and where such a call may begin.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hadal {

// docs/chat_output.md shows each.
enum class ToolFormat : uint8_t {
  kNone,      // no calls: all text is content
  kDeepSeek,  // <｜tool▁call▁begin｜> as V3, R1 and their distilled models write it, and as V3.1
              // does
  kHermes,  // <tool_call>{"name": ..., "arguments": ...}</tool_call>: Hermes, Qwen
  kLlama,   // {"name": ..., "parameters": ...} as the whole answer, perhaps after <|python_tag|>
};

// The format that a model with this chat template was trained to write; kNone when the template
// has no tool calls, or calls of another kind.
ToolFormat DetectToolFormat(std::string_view template_source);

// Names an operator may give instead. Several may mean one format.
std::vector<std::string> ToolFormatNames();
// Throws Error(kUsage) that lists the names.
ToolFormat ToolFormatOfName(std::string_view name);

// The strings that stand around calls. Some vocabularies have them as special tokens.
std::span<const std::string_view> ToolFormatMarkers(ToolFormat format);

}  // namespace hadal
