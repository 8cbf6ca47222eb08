// What a parser of model output hands over.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hadal {

// A part of one tool call. `id` and `name` are set in the first part of a call and empty later;
// all `arguments` of one index, put together, are its JSON text.
struct ToolCallDelta {
  size_t index = 0;  // 0, 1, 2, ... in the order of the calls
  std::string id;
  std::string name;
  std::string arguments;
  bool operator==(const ToolCallDelta&) const = default;
};

// New text of each kind. Every string is whole UTF-8 characters.
struct OutputDelta {
  std::string reasoning;
  std::string content;
  std::vector<ToolCallDelta> tool_calls;

  bool empty() const { return reasoning.empty() && content.empty() && tool_calls.empty(); }
};

// Collects what parsers find until the caller takes it.
class OutputSink {
 public:
  explicit OutputSink(std::function<std::string(size_t index)> make_id)
      : make_id_(std::move(make_id)) {}

  void Reasoning(std::string_view text) { delta_.reasoning += text; }
  void Content(std::string_view text) { delta_.content += text; }
  void BeginCall(std::string name) {
    delta_.tool_calls.push_back({calls_, make_id_(calls_), std::move(name), ""});
    ++calls_;
  }
  // Of the call that began last.
  void Arguments(std::string_view text) {
    if (text.empty()) return;
    if (delta_.tool_calls.empty()) delta_.tool_calls.push_back({calls_ - 1, "", "", ""});
    delta_.tool_calls.back().arguments += text;
  }

  OutputDelta Take() { return std::exchange(delta_, {}); }
  size_t calls() const { return calls_; }

 private:
  std::function<std::string(size_t)> make_id_;
  OutputDelta delta_;
  size_t calls_ = 0;
};

}  // namespace hadal
