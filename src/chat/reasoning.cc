#include "chat/reasoning.h"

#include <algorithm>

#include "chat/marker_scanner.h"

namespace hadal {
namespace {

bool IsOwn(const MarkedText& text, size_t begin, size_t size) {
  for (size_t i = begin; i < begin + size; ++i) {
    if (text.IsData(i)) return false;
  }
  return true;
}

}  // namespace

ReasoningStart ReasoningStartOf(const MarkedText& prompt) {
  const std::string_view text = prompt.text;
  size_t end = text.size();
  while (end > 0) {
    const std::string_view before = text.substr(0, end);
    for (const std::string_view marker : {kThinkBegin, kThinkEnd}) {
      if (before.ends_with(marker) && IsOwn(prompt, end - marker.size(), marker.size())) {
        return marker == kThinkBegin ? ReasoningStart::kOpen : ReasoningStart::kNone;
      }
    }
    if (!IsJsonSpace(text[end - 1]) && !prompt.IsData(end - 1)) break;
    --end;
  }
  return ReasoningStart::kMaybe;
}

}  // namespace hadal
