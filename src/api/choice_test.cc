// One choice: the same text, tokens and reasons, however it is read.
#include "api/choice.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "formats/checkpoint.h"

namespace hadal::api {
namespace {

class ChoiceTest : public testing::Test {
 protected:
  std::vector<int32_t> Ids(const std::string& text) const {
    return tokenizer_.Encode(text, {.add_bos = false, .data_ranges = {}});
  }
  struct Read {
    ChoiceDelta whole;
    std::string reason;
    OrderedJson stop_reason;
    uint32_t n_tokens = 0, reasoning_tokens = 0;
  };
  // Each token has its own id as log-probability, to be told apart.
  Read Run(const std::vector<int32_t>& ids, ChoiceOptions options,
           FinishReason reason = FinishReason::kStop, int32_t ends_with = -1) {
    Choice choice(tokenizer_, std::move(options));
    Read read;
    for (const int32_t id : ids) read.whole.Append(choice.Push(Event(id, false)));
    if (ends_with >= 0) read.whole.Append(choice.Push(Event(ends_with, true)));
    read.whole.Append(choice.Finish(reason));
    read.reason = choice.finish_reason();
    read.stop_reason = choice.stop_reason();
    read.n_tokens = choice.n_tokens();
    read.reasoning_tokens = choice.reasoning_tokens();
    return read;
  }
  static TokenEvent Event(int32_t id, bool ends) {
    TokenEvent event;
    event.token = id;
    event.ends_text = ends;
    event.logprobs.emplace().chosen = {id, -static_cast<double>(id)};
    return event;
  }
  static std::vector<int32_t> TokensOf(const ChoiceDelta& delta) {
    std::vector<int32_t> ids;
    for (const TokenEntry& entry : delta.tokens) ids.push_back(entry.logprobs.chosen.token);
    return ids;
  }

  Tokenizer tokenizer_ = Tokenizer::Create(
      Checkpoint::OpenVocabulary(std::filesystem::path(HADAL_SOURCE_DIR) / "models/reef"));
};

TEST_F(ChoiceTest, TextAndTokensPassThrough) {
  const std::vector<int32_t> ids = Ids("The capital of France is Paris.");
  const Read read = Run(ids, {}, FinishReason::kLength);
  EXPECT_EQ(read.whole.output.content, "The capital of France is Paris.");
  EXPECT_EQ(TokensOf(read.whole), ids);
  EXPECT_EQ(read.reason, "length");
  EXPECT_EQ(read.n_tokens, ids.size());
  EXPECT_EQ(read.whole.tokens[0].text_begin, 0u);
  EXPECT_EQ(read.whole.tokens[1].text_begin, tokenizer_.TokenBytes(ids[0]).size());
}

TEST_F(ChoiceTest, AStopStringTakesItsTokensWithIt) {
  const std::vector<int32_t> ids = Ids("one two three four");
  const Read read = Run(ids, {.stop = {"three"}}, FinishReason::kCancelled);
  EXPECT_EQ(read.whole.output.content, "one two ");
  EXPECT_EQ(read.reason, "stop");
  EXPECT_EQ(read.stop_reason, "three");
  size_t bytes = 0;
  for (const int32_t id : TokensOf(read.whole)) bytes += tokenizer_.TokenBytes(id).size();
  EXPECT_GE(bytes, std::string("one two ").size());
  EXPECT_LT(TokensOf(read.whole).size(), ids.size());

  const Read kept = Run(ids, {.stop = {"three"}, .include_stop = true}, FinishReason::kCancelled);
  EXPECT_EQ(kept.whole.output.content, "one two three");
}

TEST_F(ChoiceTest, TokensAfterTheEndChangeNothing) {
  std::vector<int32_t> ids = Ids("one two three");
  const Read read = Run(ids, {.stop = {"two"}}, FinishReason::kCancelled);
  const std::vector<int32_t> more = Ids(" four five");
  ids.insert(ids.end(), more.begin(), more.end());
  const Read longer = Run(ids, {.stop = {"two"}}, FinishReason::kLength);
  EXPECT_EQ(longer.whole.output.content, read.whole.output.content);
  EXPECT_EQ(longer.n_tokens, read.n_tokens);
  EXPECT_EQ(longer.reason, read.reason);
}

TEST_F(ChoiceTest, StopTokensAreReportedOnlyWhenAskedFor) {
  const int32_t eos = tokenizer_.eos_id();
  const Read plain = Run(Ids("hi"), {}, FinishReason::kStop, eos);
  EXPECT_EQ(plain.reason, "stop");
  EXPECT_TRUE(plain.stop_reason.is_null());
  EXPECT_EQ(plain.n_tokens, Ids("hi").size() + 1);
  EXPECT_EQ(TokensOf(plain.whole), Ids("hi"));
  const Read asked = Run(Ids("hi"), {.stop_token_ids = {eos}}, FinishReason::kStop, eos);
  EXPECT_EQ(asked.stop_reason, eos);
}

TEST_F(ChoiceTest, ThoughtsAreCountedAndMarked) {
  ChoiceOptions options;
  options.parser.emplace().reasoning = ReasoningStart::kOpen;
  const Read read = Run(Ids("I think.</think>Yes."), options);
  EXPECT_EQ(read.whole.output.reasoning, "I think.");
  EXPECT_EQ(read.whole.output.content, "Yes.");
  EXPECT_EQ(read.reasoning_tokens, Ids("I think.</think>").size());
  EXPECT_TRUE(read.whole.tokens.front().in_thought);
  EXPECT_FALSE(read.whole.tokens.back().in_thought);
}

TEST_F(ChoiceTest, ToolCallsNameTheReason) {
  const std::string call =
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>";
  ChoiceOptions options;
  options.parser.emplace().tool_format = ToolFormat::kDeepSeek;
  options.parser->id_seed = "x";
  const Read read = Run(Ids(call + "<｜tool▁calls▁end｜>"), options);
  ASSERT_EQ(read.whole.output.tool_calls.size(), 1u);
  EXPECT_EQ(read.whole.output.tool_calls[0].name, "f");
  EXPECT_EQ(read.whole.output.tool_calls[0].arguments, "{\"a\": 1}");
  EXPECT_EQ(read.reason, "tool_calls");
  EXPECT_EQ(Run(Ids(call), options, FinishReason::kLength).reason, "length");

  const std::string second =
      "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
  EXPECT_EQ(Run(Ids(call + second), options).whole.output.tool_calls.size(), 2u);
  options.single_call = true;
  const Read single = Run(Ids(call + second), options);
  ASSERT_EQ(single.whole.output.tool_calls.size(), 1u);
  EXPECT_EQ(single.whole.output.tool_calls[0].arguments, "{\"a\": 1}");
  EXPECT_EQ(single.reason, "tool_calls");
}

TEST_F(ChoiceTest, HalfACharacterIsNeverShown) {
  const std::vector<int32_t> ids = Ids("犬");
  ASSERT_GT(ids.size(), 1u);
  const Read cut = Run({ids.begin(), ids.end() - 1}, {}, FinishReason::kLength);
  EXPECT_EQ(cut.whole.output.content, "\xEF\xBF\xBD");
  EXPECT_EQ(TokensOf(cut.whole).size(), ids.size() - 1);
}

}  // namespace
}  // namespace hadal::api
