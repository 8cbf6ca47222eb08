#include "base/json.h"

#include <unordered_set>
#include <vector>

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

// Refuses an object that names a member twice: readers would disagree on which one counts.
class DuplicateCheck {
 public:
  explicit DuplicateCheck(const std::string& source) : source_(source) {}
  template <typename J>
  bool operator()(int, typename J::parse_event_t event, const J& parsed) {
    using Event = typename J::parse_event_t;
    if (event == Event::object_start) {
      open_.emplace_back();
    } else if (event == Event::object_end) {
      open_.pop_back();
    } else if (event == Event::key) {
      const auto& name = parsed.template get_ref<const std::string&>();
      if (!open_.back().insert(name).second) {
        Fail(ErrorKind::kBadFile, "{}: the member \"{}\" stands twice in one object", source_,
             name);
      }
    }
    return true;
  }

 private:
  const std::string& source_;
  std::vector<std::unordered_set<std::string>> open_;
};

template <typename J>
J Parse(std::string_view text, const std::string& source, int max_depth) {
  CheckDepth(text, source, max_depth);
  try {
    DuplicateCheck check(source);
    return J::parse(text.begin(), text.end(),
                    [&check](int depth, typename J::parse_event_t event, J& parsed) {
                      return check.operator()<J>(depth, event, parsed);
                    });
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
