// <tool_call>\n{"name": "f", "arguments": {...}}\n</tool_call>
#include <string>

#include "chat/json_call_reader.h"
#include "chat/marker_scanner.h"
#include "chat/tool_call_parser.h"
#include "chat/tool_markers.h"

namespace hadal {
namespace {

using tool_markers::kHermesBegin;
using tool_markers::kHermesEnd;

class HermesToolParser final : public ToolCallParser {
 public:
  void Push(char c, OutputSink& sink) override {
    if (in_call_) {
      PushInCall(c, sink);
    } else {
      PushContent(c, sink);
    }
  }

  bool Finish(OutputSink& sink) override {
    if (!in_call_) {
      const std::string held = scanner_.TakeHeld();
      if (!after_call_ || !kHermesEnd.starts_with(held)) sink.Content(held);
      return true;
    }
    if (reader_.arguments_done()) return true;
    if (reader_.committed()) {
      sink.Arguments(end_);
    } else {
      sink.Content(raw_);
    }
    return false;
  }

 private:
  void PushContent(char c, OutputSink& sink) {
    std::string text;
    const auto marker = scanner_.Push(c, text);
    if (!text.empty()) after_call_ = false;
    sink.Content(text);
    if (!marker) return;
    const std::string before(scanner_.newlines_before_marker(), '\n');
    if (tool_markers::kHermes[*marker] == kHermesBegin) {
      in_call_ = true;
      raw_ = before + std::string(kHermesBegin);
      reader_ = JsonCallReader(false);
    } else if (after_call_) {
      scanner_.SkipLeading(MarkerScanner::Skip::kSpace);
    } else {
      sink.Content(before + std::string(kHermesEnd));
    }
  }

  void PushInCall(char c, OutputSink& sink) {
    if (reader_.between_arguments() && PushEndMarker(c, sink)) return;
    if (!reader_.committed()) raw_ += c;
    switch (reader_.Push(c, sink)) {
      case JsonCallReader::Status::kMore:
        return;
      case JsonCallReader::Status::kDone:
        EndCall();
        return;
      case JsonCallReader::Status::kEndedBefore:
        EndCall();
        PushContent(c, sink);
        return;
      case JsonCallReader::Status::kBad:
        raw_.pop_back();
        sink.Content(raw_);
        in_call_ = false;
        after_call_ = false;
        PushContent(c, sink);
        return;
    }
  }

  // Broken arguments may lack their closing brackets: outside a string the marker ends them too.
  bool PushEndMarker(char c, OutputSink& sink) {
    if (c == kHermesEnd[end_.size()]) {
      end_ += c;
      if (end_ == kHermesEnd) EndCall();
      return true;
    }
    sink.Arguments(end_);
    end_.clear();
    if (c != kHermesEnd.front()) return false;
    end_ = c;
    return true;
  }

  void EndCall() {
    in_call_ = false;
    after_call_ = true;
    end_.clear();
    scanner_.SkipLeading(MarkerScanner::Skip::kSpace);
  }

  MarkerScanner scanner_{tool_markers::kHermes};
  JsonCallReader reader_{false};
  bool in_call_ = false;
  bool after_call_ = false;  // nothing but white space since the last call
  std::string raw_;          // of the call, for as long as it may turn out not to be one
  std::string end_;          // the part of the closing marker that was met inside arguments
};

}  // namespace

std::unique_ptr<ToolCallParser> MakeHermesToolParser() {
  return std::make_unique<HermesToolParser>();
}

}  // namespace hadal
