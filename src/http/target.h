// What stands between the method and the version of a request line.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hadal {

struct Target {
  std::string path;                                        // "/" and the segments, joined by "/"
  std::vector<std::string> segments;                       // decoded; empty ones are left out
  std::vector<std::pair<std::string, std::string>> query;  // decoded; "a" is {"a", ""}
};

// Takes "/path?query" and the absolute form "http://host/path?query"; "*" is the path "*". Splits
// at
// '/' before it decodes, so that "a%2Fb" is one segment. Absent for anything else, for a '%' that
// two hexadecimal digits do not follow, for an encoded NUL, and for spaces and control characters.
std::optional<Target> ParseTarget(std::string_view text);

// "%41" -> "A"; with `plus_is_space`, "+" -> " ". Absent as above.
std::optional<std::string> PercentDecode(std::string_view text, bool plus_is_space);

}  // namespace hadal
