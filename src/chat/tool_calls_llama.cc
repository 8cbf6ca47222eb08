// {"name": "f", "parameters": {...}} as the whole answer, or after <|python_tag|>; several with ';'
// between them.
#include <string>

#include "chat/json_call_reader.h"
#include "chat/marker_scanner.h"
#include "chat/tool_call_parser.h"
#include "chat/tool_markers.h"

namespace hadal {
namespace {

class LlamaToolParser final : public ToolCallParser {
 public:
  void Push(char c, OutputSink& sink) override {
    if (state_ == State::kContent) {
      PushContent(c, sink);
      return;
    }
    // What may stand before the object.
    if (state_ == State::kStart && !IsJsonSpace(c)) {
      if (c == '{') {
        state_ = State::kCall;
      } else {
        GiveBack(sink);
        PushContent(c, sink);
        return;
      }
    }
    if (!reader_.committed()) raw_ += c;
    if (state_ == State::kStart) return;
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
        GiveBack(sink);
        PushContent(c, sink);
        return;
    }
  }

  bool Finish(OutputSink& sink) override {
    if (state_ == State::kContent) {
      sink.Content(scanner_.TakeHeld());
      return true;
    }
    if (reader_.committed()) return reader_.arguments_done();
    const bool between_calls = raw_.starts_with(';') && state_ == State::kStart;
    if (!between_calls) sink.Content(raw_);
    // A JSON answer that was cut is a call that was cut only if it looks like one.
    return !tagged_ && !reader_.has_name();
  }

 private:
  enum class State { kStart, kCall, kContent };

  void PushContent(char c, OutputSink& sink) {
    if (after_call_ && c == ';' && scanner_.idle()) {
      BeginCall(";");
      return;
    }
    std::string text;
    const auto marker = scanner_.Push(c, text);
    if (!text.empty()) after_call_ = false;
    sink.Content(text);
    if (!marker) return;
    BeginCall(std::string(scanner_.newlines_before_marker(), '\n') +
              std::string(tool_markers::kPythonTag));
    tagged_ = true;
  }

  void BeginCall(std::string raw) {
    state_ = State::kStart;
    tagged_ = false;
    raw_ = std::move(raw);
    reader_ = JsonCallReader(true);
  }

  void EndCall() {
    state_ = State::kContent;
    after_call_ = true;
    scanner_.SkipLeading(MarkerScanner::Skip::kSpace);
  }

  void GiveBack(OutputSink& sink) {
    sink.Content(raw_);
    state_ = State::kContent;
    after_call_ = false;
  }

  MarkerScanner scanner_{tool_markers::kLlama};
  JsonCallReader reader_{true};
  State state_ = State::kStart;
  bool after_call_ = false;  // nothing but white space since the last call
  bool tagged_ = false;      // the object follows a tag
  std::string raw_;          // from the tag, ';' or white space on, until a call is begun
};

}  // namespace

std::unique_ptr<ToolCallParser> MakeLlamaToolParser() {
  return std::make_unique<LlamaToolParser>();
}

}  // namespace hadal
