// Where thoughts begin and end.
#pragma once

#include <cstdint>
#include <string_view>

#include "chat/marked_text.h"

namespace hadal {

inline constexpr std::string_view kThinkBegin = "<think>";
inline constexpr std::string_view kThinkEnd = "</think>";

// How an answer begins.
enum class ReasoningStart : uint8_t {
  kNone,   // thoughts are over or switched off: all text is the answer
  kMaybe,  // the model may open a thought with <think>
  kOpen,   // the prompt ends inside a thought
};

// Looks at what the template wrote behind the last message: the last <think> or </think> of its own
// counts if nothing but white space or data (the beginning of an answer that is to be continued)
// follows. What users write never counts.
ReasoningStart ReasoningStartOf(const MarkedText& prompt);

inline bool ReasoningOpenAtEnd(const MarkedText& prompt) {
  return ReasoningStartOf(prompt) == ReasoningStart::kOpen;
}

}  // namespace hadal
