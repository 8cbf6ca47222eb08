#include "http/sse.h"

namespace hadal {

std::string SseData(std::string_view data) {
  std::string event;
  event.reserve(data.size() + 8);
  while (true) {
    const size_t end = data.find_first_of("\r\n");
    event += "data: ";
    event += data.substr(0, end);
    event += '\n';
    if (end == std::string_view::npos) break;
    const bool two = data[end] == '\r' && end + 1 < data.size() && data[end + 1] == '\n';
    data.remove_prefix(end + (two ? 2 : 1));
  }
  event += '\n';
  return event;
}

std::string SseComment(std::string_view text) {
  std::string event = ": ";
  for (const char c : text) event += c == '\n' || c == '\r' ? ' ' : c;
  return event + "\n\n";
}

}  // namespace hadal
