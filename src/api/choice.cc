#include "api/choice.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace hadal::api {

void ChoiceDelta::Append(ChoiceDelta other) {
  output.reasoning += other.output.reasoning;
  output.content += other.output.content;
  for (ToolCallDelta& call : other.output.tool_calls) {
    if (!output.tool_calls.empty() && output.tool_calls.back().index == call.index) {
      output.tool_calls.back().arguments += call.arguments;
    } else {
      output.tool_calls.push_back(std::move(call));
    }
  }
  std::move(other.tokens.begin(), other.tokens.end(), std::back_inserter(tokens));
}

Choice::Choice(const Tokenizer& tokenizer, ChoiceOptions options)
    : include_stop_(options.include_stop),
      single_call_(options.single_call),
      stop_token_ids_(std::move(options.stop_token_ids)),
      stream_(tokenizer, std::move(options.stop), options.skip_special,
              options.parser ? MarkerTokens(tokenizer, *options.parser) : std::vector<int32_t>()) {
  if (options.parser) parser_.emplace(std::move(*options.parser));
}

bool Choice::in_thought() const {
  return parser_ && parser_->in_reasoning();
}

ChoiceDelta Choice::Push(const TokenEvent& event) {
  ChoiceDelta delta;
  if (stopped()) return delta;
  ++n_tokens_;
  const bool was_in_thought = in_thought();
  const size_t begin = stream_.decoded_bytes();
  if (event.ends_text) stop_token_ = event.token;
  const bool is_text = !event.ends_text || include_stop_;
  if (is_text) Consume(stream_.Push(event.token), delta);
  if (stream_.stopped() && include_stop_) Consume(*stream_.stopped(), delta);
  const bool thought = was_in_thought || in_thought();
  reasoning_tokens_ += thought;
  if (is_text && event.logprobs) waiting_.push_back({*event.logprobs, thought, begin});
  ReleaseTokens(false, delta);
  return delta;
}

ChoiceDelta Choice::Finish(FinishReason reason) {
  ChoiceDelta delta;
  reason_ = reason;
  if (!stopped()) Consume(stream_.Finish(), delta);
  if (parser_ && !second_call_) {
    Add(parser_->Finish(), delta);
    complete_ = parser_->complete();
  }
  called_tools_ = parser_ && parser_->tool_calls() > 0;
  ReleaseTokens(!stopped(), delta);
  return delta;
}

void Choice::Consume(std::string_view text, ChoiceDelta& delta) {
  certain_bytes_ += text.size();
  if (!parser_) {
    delta.output.content += text;
    return;
  }
  Add(parser_->Push(text), delta);
}

void Choice::Add(OutputDelta output, ChoiceDelta& delta) {
  if (single_call_) {
    second_call_ = second_call_ || parser_->tool_calls() > 1;
    std::erase_if(output.tool_calls, [](const ToolCallDelta& call) { return call.index > 0; });
  }
  delta.Append({std::move(output), {}});
}

// A token belongs to the reply once the text it begins with does.
void Choice::ReleaseTokens(bool all, ChoiceDelta& delta) {
  while (!waiting_.empty() && (all || waiting_.front().text_begin < certain_bytes_)) {
    delta.tokens.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

std::string_view Choice::finish_reason() const {
  if (!complete_) return stream_.stopped() ? "stop" : "length";
  if (!stopped() && reason_ == FinishReason::kLength) return "length";
  return called_tools_ ? "tool_calls" : "stop";
}

OrderedJson Choice::stop_reason() const {
  if (stream_.stopped()) return *stream_.stopped();
  if (stop_token_ && std::find(stop_token_ids_.begin(), stop_token_ids_.end(), *stop_token_) !=
                         stop_token_ids_.end()) {
    return *stop_token_;
  }
  return nullptr;
}

}  // namespace hadal::api
