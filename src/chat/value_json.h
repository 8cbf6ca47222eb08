// Values from JSON and to JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "chat/runtime.h"

namespace hadal::jinja {

// Everything in the result is data. `path` names the place for errors, e.g. "messages".
Value FromJson(Runtime& runtime, const OrderedJson& json, const std::string& path, int depth = 0);
// Parses a text; everything is data.
Value ParseJsonText(Runtime& runtime, std::string_view text);

struct JsonStyle {
  std::optional<std::string> indent;  // what one level is indented by; absent: on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
  bool ensure_ascii = false;
};

// json.dumps. The whole text is data: its quotes and brackets stand between data.
Value ToJson(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace hadal::jinja
