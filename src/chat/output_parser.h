// What a model generated, taken apart while it comes: thought, answer, tool calls.
// The rules, with examples, are in docs/chat_output.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/marker_scanner.h"
#include "chat/output_sink.h"
#include "chat/reasoning.h"
#include "chat/tool_call_format.h"
#include "chat/tool_call_parser.h"
#include "tokenizer/tokenizer.h"

namespace hadal {

struct OutputParserOptions {
  ReasoningStart reasoning = ReasoningStart::kNone;
  // kNone for a request without tools, or whose tool_choice is "none".
  ToolFormat tool_format = ToolFormat::kNone;
  std::string id_seed;                               // ids are ToolCallId(id_seed, index), ...
  std::function<std::string(size_t index)> make_id;  // ... or what this says, when there is one
};

// "call_" and 24 hexadecimal digits: the same for the same seed and index.
std::string ToolCallId(std::string_view seed, size_t index);

// The special tokens that a parser with these options wants to see as text: a decoder that leaves
// special tokens out has to keep them (TextStream's `keep_special`).
std::vector<int32_t> MarkerTokens(const Tokenizer& tokenizer, const OutputParserOptions& options);

// One generated text. The pieces of each kind, put together, do not depend on where the text was
// cut. Nothing a model writes is an error. A value, for one thread.
class OutputParser {
 public:
  explicit OutputParser(OutputParserOptions options);

  // What has become certain with this text.
  OutputDelta Push(std::string_view text);
  // The rest; nothing may be pushed afterwards.
  OutputDelta Finish();

  // The text so far ends inside a thought.
  bool in_reasoning() const { return stage_ == Stage::kThought; }
  size_t tool_calls() const { return sink_.calls(); }
  // False when the text ended inside a tool call. Only after Finish().
  bool complete() const { return complete_; }

 private:
  enum class Stage : uint8_t { kStart, kThought, kGap, kAnswer };

  void PushByte(char c);
  void PushStart(char c);
  void PushThought(char c);
  void LeaveStart();

  ReasoningStart start_;
  OutputSink sink_;
  MarkerScanner thought_;
  std::unique_ptr<ToolCallParser> answer_;
  Stage stage_ = Stage::kStart;
  std::string cut_;         // the beginning of a character
  std::string held_;        // white space and the beginning of <think>
  size_t held_spaces_ = 0;  // of it, white space
  bool complete_ = true;
};

// A whole answer: for requests without streaming, and for tests.
struct ParsedOutput {
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;
    bool operator==(const Call&) const = default;
  };
  std::string reasoning;
  std::string content;
  std::vector<Call> tool_calls;
  bool complete = true;

  void Add(const OutputDelta& delta);
  bool operator==(const ParsedOutput&) const = default;
};

ParsedOutput ParseOutput(std::string_view text, const OutputParserOptions& options);

}  // namespace hadal
