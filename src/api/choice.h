// One choice of a reply: its tokens become text, thought, tool calls and log-probabilities.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "chat/output_parser.h"
#include "engine/text_stream.h"
#include "sched/events.h"
#include "tokenizer/tokenizer.h"

namespace hadal::api {

struct TokenEntry {
  TokenLogprobs logprobs;
  bool in_thought = false;
  size_t text_begin = 0;  // bytes of generated text before it
};

// What became certain: text that no stop string can take back, and the tokens it begins with.
struct ChoiceDelta {
  OutputDelta output;
  std::vector<TokenEntry> tokens;  // when log-probabilities were asked for

  bool empty() const { return output.empty() && tokens.empty(); }
  void Append(ChoiceDelta other);
};

struct ChoiceOptions {
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;  // those the request named
  bool include_stop = false;
  bool skip_special = true;
  bool single_call = false;  // the text ends where a second tool call begins
  // Absent: the text stays as it is (completions).
  std::optional<OutputParserOptions> parser;
};

// All deltas of a choice put together are the same however the tokens came; tokens after the end
// change nothing. A value for one thread; the tokenizer must outlive it.
class Choice {
 public:
  Choice(const Tokenizer& tokenizer, ChoiceOptions options);

  ChoiceDelta Push(const TokenEvent& event);
  // `reason` is the engine's; a stop string found here is stronger.
  ChoiceDelta Finish(FinishReason reason);

  // The text has ended by a stop string or a second call: the request can be cancelled.
  bool stopped() const { return second_call_ || stream_.stopped(); }

  // "stop", "length" or "tool_calls"; after Finish.
  std::string_view finish_reason() const;
  // vLLM's: the stop string or the token id that ended the text; null otherwise.
  OrderedJson stop_reason() const;

  uint32_t n_tokens() const { return n_tokens_; }  // those after a stop string do not count
  uint32_t reasoning_tokens() const { return reasoning_tokens_; }

 private:
  bool in_thought() const;
  void Consume(std::string_view text, ChoiceDelta& delta);
  void Add(OutputDelta output, ChoiceDelta& delta);
  void ReleaseTokens(bool all, ChoiceDelta& delta);

  bool include_stop_;
  bool single_call_;
  std::vector<int32_t> stop_token_ids_;
  TextStream stream_;
  std::optional<OutputParser> parser_;
  std::deque<TokenEntry> waiting_;  // tokens whose text is not certain yet
  size_t certain_bytes_ = 0;
  uint32_t n_tokens_ = 0;
  uint32_t reasoning_tokens_ = 0;
  std::optional<int32_t> stop_token_;
  FinishReason reason_ = FinishReason::kStop;
  bool called_tools_ = false;
  bool second_call_ = false;
  bool complete_ = true;
};

}  // namespace hadal::api
