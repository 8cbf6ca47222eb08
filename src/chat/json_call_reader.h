// Reads one tool call that is a JSON object with a name and arguments, while it is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "chat/output_sink.h"

namespace hadal {

// Follows one JSON object, array or string from its first byte to its last by brackets and quotes
// alone; whether it is valid inside is not asked.
class JsonSpan {
 public:
  JsonSpan() = default;
  // A span that begins inside `depth` brackets.
  explicit JsonSpan(int depth) : depth_(depth) {}

  // True when `c` is the last byte.
  bool Push(char c);
  bool in_string() const { return in_string_; }

 private:
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

// The text that a JSON string literal stands for; nothing when it is not one.
std::optional<std::string> DecodeJsonString(std::string_view literal);

// {"name": "f", "arguments": {...}}: `parameters` is another word for `arguments`; `type` and `id`
// are read and dropped, as is every member after the arguments. Arguments that are a string are
// decoded, an object is passed on byte by byte as soon as the name is known.
class JsonCallReader {
 public:
  enum class Status : uint8_t {
    kMore,
    kDone,         // the last byte was the object's last
    kEndedBefore,  // the arguments are whole, the object was never closed, the byte is not part
    kBad,          // not such an object; no call was begun
  };

  // Without arguments a call is kBad when `arguments_required`, and has "{}" otherwise.
  explicit JsonCallReader(bool arguments_required) : arguments_required_(arguments_required) {}

  // White space may stand before the object.
  Status Push(char c, OutputSink& sink);

  bool has_name() const { return name_.has_value(); }
  // A call was begun in the sink; kBad cannot come any more.
  bool committed() const { return committed_; }
  // The arguments are complete (the closing brackets around them may be missing).
  bool arguments_done() const { return state_ == State::kRest || state_ == State::kMembers; }
  bool between_arguments() const { return state_ == State::kArguments && !span_.in_string(); }

 private:
  enum class State : uint8_t {
    kOpen,
    kKey,
    kInKey,
    kColon,
    kValue,
    kInValue,
    kScalar,
    kAfter,
    kArguments,
    kRest,
    kMembers,
  };
  enum class Key : uint8_t { kName, kArguments, kIgnored };

  bool EndKey();
  bool BeginValue(char c, OutputSink& sink);
  bool EndValue(OutputSink& sink);
  Status PushRest(char c);
  Status PushAfter(char c, OutputSink& sink);
  void Commit(std::string_view arguments, OutputSink& sink);

  bool arguments_required_;
  State state_ = State::kOpen;
  Key key_ = Key::kIgnored;
  JsonSpan span_;
  std::string text_;  // of the key or value that is being read
  std::optional<std::string> name_;
  std::optional<std::string> arguments_;  // that came before the name
  bool committed_ = false;
};

}  // namespace hadal
