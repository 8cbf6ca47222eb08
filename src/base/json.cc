#include "base/json.h"

#include "base/error.h"

namespace hadal {
namespace {

// Depth is checked before parsing, on the text: brackets inside strings do not count.
void CheckDepth(std::string_view text, const std::string& source, int max_depth) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > max_depth) {
        Fail(ErrorKind::kBadFile, "{}: JSON nested deeper than {} levels at byte {}", source,
             max_depth, i);
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

template <typename J>
J Parse(std::string_view text, const std::string& source, int max_depth) {
  CheckDepth(text, source, max_depth);
  try {
    return J::parse(text.begin(), text.end());
  } catch (const nlohmann::json::exception& error) {
    Fail(ErrorKind::kBadFile, "{}: not valid JSON: {}", source, error.what());
  }
}

}  // namespace

Json ParseJson(std::string_view text, const std::string& source, int max_depth) {
  return Parse<Json>(text, source, max_depth);
}

OrderedJson ParseOrderedJson(std::string_view text, const std::string& source, int max_depth) {
  return Parse<OrderedJson>(text, source, max_depth);
}

}  // namespace hadal
