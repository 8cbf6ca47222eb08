// JSON from outside, with errors that name the source.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace hadal {

using Json = nlohmann::json;
// Keeps the order in which members were written (for rendering and for output).
using OrderedJson = nlohmann::ordered_json;

// Parses `text`; `source` (a path, "request body") stands in front of the error's message.
// Throws Error(kBadFile) on broken JSON, broken UTF-8, a member named twice in one object, or
// nesting deeper than `max_depth`.
Json ParseJson(std::string_view text, const std::string& source, int max_depth = 128);
OrderedJson ParseOrderedJson(std::string_view text, const std::string& source, int max_depth = 128);

}  // namespace hadal
