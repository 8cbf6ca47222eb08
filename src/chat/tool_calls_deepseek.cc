// DeepSeek's calls. V3, R1 and the distilled models write
//   <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\n{...}\n```
//   <｜tool▁call▁end｜><｜tool▁calls▁end｜>
// and V3.1
//   <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{...}<｜tool▁call▁end｜>
//   <｜tool▁calls▁end｜>
// What follows the separator tells which it is.
#include <algorithm>
#include <string>

#include "chat/json_call_reader.h"
#include "chat/marker_scanner.h"
#include "chat/tool_call_parser.h"
#include "chat/tool_markers.h"

namespace hadal {
namespace {

using tool_markers::kDeepSeekCallBegin;
using tool_markers::kDeepSeekCallEnd;
using tool_markers::kDeepSeekCallsBegin;
using tool_markers::kDeepSeekCallsEnd;
using tool_markers::kDeepSeekSep;

constexpr std::string_view kContentMarkers[] = {kDeepSeekCallsBegin, kDeepSeekCallBegin,
                                                kDeepSeekCallsEnd};
constexpr std::string_view kFence = "```json";
constexpr size_t kMaxName = 512;  // nothing longer is held back as a name

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsJsonSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsJsonSpace(text.back())) text.remove_suffix(1);
  return text;
}

// Passes arguments on up to the end marker. White space and the closing fence in front of the
// marker are not part of them.
class ArgumentsReader {
 public:
  // True when `c` completes the marker.
  bool Push(char c, OutputSink& sink) {
    for (;;) {
      if (c == kDeepSeekCallEnd[matched_]) {
        held_ += c;
        return ++matched_ == kDeepSeekCallEnd.size();
      }
      if (matched_ == 0 && (IsJsonSpace(c) || TakesTick(c))) {
        held_ += c;
        return false;
      }
      if (held_.empty()) {
        closed_ |= span_.Push(c);
        sink.Arguments(std::string_view(&c, 1));
        return false;
      }
      Release(sink);
    }
  }

  // The text ends without a marker. Whether the arguments are whole.
  bool Finish(OutputSink& sink) {
    if (!closed_) Release(sink);
    return closed_;
  }

 private:
  bool TakesTick(char c) {
    if (c != '`' || ticks_ == 3 || (ticks_ > 0 && held_.back() != '`')) return false;
    ++ticks_;
    return true;
  }

  void Release(OutputSink& sink) {
    for (const char c : held_) closed_ |= span_.Push(c);
    sink.Arguments(held_);
    held_.clear();
    matched_ = 0;
    ticks_ = 0;
  }

  std::string held_;  // white space, a fence, and the beginning of the marker
  size_t matched_ = 0;
  size_t ticks_ = 0;
  JsonSpan span_;
  bool closed_ = false;
};

class DeepSeekToolParser final : public ToolCallParser {
 public:
  void Push(char c, OutputSink& sink) override {
    switch (state_) {
      case State::kContent:
        PushContent(c, sink);
        return;
      case State::kArguments:
        if (arguments_.Push(c, sink)) EndCall();
        return;
      default:
        break;
    }
    raw_ += c;
    text_ += c;
    if (!PushHeader(c, sink)) GiveBack(sink);
  }

  bool Finish(OutputSink& sink) override {
    if (state_ == State::kArguments) return arguments_.Finish(sink);
    if (state_ != State::kContent) {
      sink.Content(raw_);
      return false;
    }
    const std::string held = scanner_.TakeHeld();
    if (!after_call_ || !kDeepSeekCallsEnd.starts_with(held)) sink.Content(held);
    return true;
  }

 private:
  enum class State { kContent, kSection, kHeader, kAfterSep, kNameLine, kFence, kArguments };

  void PushContent(char c, OutputSink& sink) {
    std::string text;
    const auto marker = scanner_.Push(c, text);
    if (!text.empty()) after_call_ = false;
    sink.Content(text);
    if (!marker) return;
    const std::string before(scanner_.newlines_before_marker(), '\n');
    const std::string_view found = kContentMarkers[*marker];
    if (found == kDeepSeekCallsEnd) {
      if (after_call_) {
        scanner_.SkipLeading(MarkerScanner::Skip::kSpace);
      } else {
        sink.Content(before + std::string(found));
      }
      return;
    }
    raw_ = before + std::string(found);
    raw_begin_ = raw_.size();
    Enter(found == kDeepSeekCallBegin ? State::kHeader : State::kSection);
  }

  // No call came of raw_: it is content, but for what may begin another marker at its end.
  void GiveBack(OutputSink& sink) {
    const size_t last = raw_.rfind('<');
    const size_t cut = last >= raw_begin_ ? std::min(last, raw_.size() - 1) : raw_.size() - 1;
    sink.Content(std::string_view(raw_).substr(0, cut));
    state_ = State::kContent;
    after_call_ = false;
    const std::string rest = raw_.substr(cut);
    for (const char c : rest) PushContent(c, sink);
  }

  // One byte between a begin marker and the arguments; false when no call can come of it.
  bool PushHeader(char c, OutputSink& sink) {
    switch (state_) {
      case State::kSection:
        if (text_.size() == 1 && IsJsonSpace(c)) {
          text_.clear();
          return true;
        }
        if (text_ == kDeepSeekCallBegin) Enter(State::kHeader);
        return text_.empty() || kDeepSeekCallBegin.starts_with(text_);
      case State::kHeader:
        if (text_.ends_with(kDeepSeekSep)) {
          text_.resize(text_.size() - kDeepSeekSep.size());
          name_ = Trim(text_);
          Enter(State::kAfterSep);
          return true;
        }
        return c != '\n' && text_.size() <= kMaxName && MayEndInSeparator();
      case State::kAfterSep:
        if (c == '{') return BeginArguments(sink);
        if (c == '<') return false;
        if (IsJsonSpace(c)) {
          text_.clear();
        } else {
          state_ = State::kNameLine;
        }
        return true;
      case State::kNameLine:
        if (c == '\n') {
          name_ = Trim(text_);
          Enter(State::kFence);
          return true;
        }
        return c != '<' && text_.size() <= kMaxName;
      case State::kFence:
        if (c == '{') {
          text_.pop_back();
          const std::string_view fence = Trim(text_);
          return (fence.empty() || fence == "```" || fence == kFence) && BeginArguments(sink);
        }
        if (IsJsonSpace(c)) {
          if (Trim(text_).empty()) text_.clear();
          return text_.size() <= kMaxName;
        }
        return kFence.starts_with(Trim(text_));
      default:
        return false;
    }
  }

  bool MayEndInSeparator() const {
    const size_t begin = text_.find('<');
    return begin == std::string::npos ||
           kDeepSeekSep.starts_with(std::string_view(text_).substr(begin));
  }

  void Enter(State state) {
    state_ = state;
    text_.clear();
  }

  bool BeginArguments(OutputSink& sink) {
    if (name_.empty()) return false;
    sink.BeginCall(name_);
    arguments_ = ArgumentsReader();
    arguments_.Push('{', sink);
    Enter(State::kArguments);
    return true;
  }

  void EndCall() {
    state_ = State::kContent;
    after_call_ = true;
    scanner_.SkipLeading(MarkerScanner::Skip::kSpace);
  }

  MarkerScanner scanner_{kContentMarkers};
  State state_ = State::kContent;
  bool after_call_ = false;  // nothing but white space since the last call
  std::string raw_;          // from the begin marker on, for as long as no call was begun
  size_t raw_begin_ = 0;     // where the begin marker ends in it
  std::string text_;         // of the current state
  std::string name_;
  ArgumentsReader arguments_;
};

}  // namespace

std::unique_ptr<ToolCallParser> MakeDeepSeekToolParser() {
  return std::make_unique<DeepSeekToolParser>();
}

}  // namespace hadal
