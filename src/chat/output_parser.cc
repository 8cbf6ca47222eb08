#include "chat/output_parser.h"

#include <fmt/core.h>

#include <span>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/utf8.h"

namespace hadal {
namespace {

constexpr std::string_view kThoughtMarkers[] = {kThinkEnd};

std::function<std::string(size_t)> IdMaker(OutputParserOptions& options) {
  if (options.make_id) return std::move(options.make_id);
  return [seed = std::move(options.id_seed)](size_t index) { return ToolCallId(seed, index); };
}

}  // namespace

std::string ToolCallId(std::string_view seed, size_t index) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(seed.data(), seed.size()));
  const uint64_t high = Hash64(bytes, 2 * index);
  const uint64_t low = Hash64(bytes, 2 * index + 1);
  return fmt::format("call_{:016x}{:08x}", high, low >> 32);
}

std::vector<int32_t> MarkerTokens(const Tokenizer& tokenizer, const OutputParserOptions& options) {
  std::vector<int32_t> ids;
  const auto add = [&](std::string_view marker) {
    const int32_t id = tokenizer.TokenId(marker);
    if (id >= 0 && tokenizer.IsSpecial(id)) ids.push_back(id);
  };
  for (const std::string_view marker : ToolFormatMarkers(options.tool_format)) add(marker);
  if (options.reasoning != ReasoningStart::kNone) {
    add(kThinkBegin);
    add(kThinkEnd);
  }
  return ids;
}

OutputParser::OutputParser(OutputParserOptions options)
    : start_(options.reasoning),
      sink_(IdMaker(options)),
      thought_(kThoughtMarkers),
      answer_(MakeToolCallParser(options.tool_format)) {
  if (start_ == ReasoningStart::kNone) stage_ = Stage::kAnswer;
  thought_.SkipLeading(MarkerScanner::Skip::kNewlines);
}

// The text is not a thought that the model opened itself.
void OutputParser::LeaveStart() {
  stage_ = start_ == ReasoningStart::kOpen ? Stage::kThought : Stage::kAnswer;
  const std::string held = std::exchange(held_, {});
  for (const char c : held) PushByte(c);
}

void OutputParser::PushStart(char c) {
  held_ += c;
  if (held_spaces_ + 1 == held_.size() && IsJsonSpace(c)) {
    ++held_spaces_;
    return;
  }
  const std::string_view marker = std::string_view(held_).substr(held_spaces_);
  if (marker == kThinkBegin) {
    held_.clear();
    stage_ = Stage::kThought;
  } else if (!kThinkBegin.starts_with(marker)) {
    LeaveStart();
  }
}

void OutputParser::PushThought(char c) {
  std::string text;
  if (thought_.Push(c, text)) stage_ = Stage::kGap;
  sink_.Reasoning(text);
}

void OutputParser::PushByte(char c) {
  switch (stage_) {
    case Stage::kStart:
      PushStart(c);
      return;
    case Stage::kThought:
      PushThought(c);
      return;
    case Stage::kGap:
      if (c == '\n') return;
      stage_ = Stage::kAnswer;
      [[fallthrough]];
    case Stage::kAnswer:
      answer_->Push(c, sink_);
      return;
  }
}

OutputDelta OutputParser::Push(std::string_view text) {
  cut_ += text;
  const size_t whole = CompleteUtf8Prefix(cut_);
  const std::string characters = ReplaceInvalidUtf8(std::string_view(cut_).substr(0, whole));
  cut_.erase(0, whole);
  for (const char c : characters) PushByte(c);
  return sink_.Take();
}

OutputDelta OutputParser::Finish() {
  const std::string rest = ReplaceInvalidUtf8(std::exchange(cut_, {}));
  for (const char c : rest) PushByte(c);
  if (stage_ == Stage::kStart) LeaveStart();
  if (stage_ == Stage::kThought) sink_.Reasoning(thought_.TakeHeld());
  complete_ = answer_->Finish(sink_);
  return sink_.Take();
}

void ParsedOutput::Add(const OutputDelta& delta) {
  reasoning += delta.reasoning;
  content += delta.content;
  for (const ToolCallDelta& part : delta.tool_calls) {
    HADAL_CHECK(part.index <= tool_calls.size());
    if (part.index == tool_calls.size()) tool_calls.emplace_back();
    Call& call = tool_calls[part.index];
    call.id += part.id;
    call.name += part.name;
    call.arguments += part.arguments;
  }
}

ParsedOutput ParseOutput(std::string_view text, const OutputParserOptions& options) {
  OutputParser parser(options);
  ParsedOutput result;
  result.Add(parser.Push(text));
  result.Add(parser.Finish());
  result.complete = parser.complete();
  return result;
}

}  // namespace hadal
