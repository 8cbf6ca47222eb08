// Server-sent events, only what every client of such streams understands: data and comments.
#pragma once

#include <string>
#include <string_view>

namespace hadal {

// "data: ...\n\n"; each line of `data` gets its own "data: ". JSON has no raw line ends, so an
// event of JSON is one line.
std::string SseData(std::string_view data);

// ": ...\n\n", which clients ignore: it keeps proxies from cutting a silent connection. Line ends
// in `text` become spaces.
std::string SseComment(std::string_view text);

}  // namespace hadal
