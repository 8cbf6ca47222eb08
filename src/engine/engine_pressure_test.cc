// Real tiny models under every kind of pressure at once must give what each request gives alone,
// byte for byte.
#include <gtest/gtest.h>

#include <random>

#include "base/json.h"
#include "base/mapped_file.h"
#include "engine/engine_test_stack.h"

namespace hadal {
namespace {

void ExpectSame(const Answer& answer, const Answer& expected) {
  EXPECT_EQ(answer.tokens, expected.tokens);
  EXPECT_EQ(answer.logprobs, expected.logprobs);
  EXPECT_EQ(answer.prompt_logprobs, expected.prompt_logprobs);
  EXPECT_EQ(answer.end.reason, expected.end.reason);
}

std::vector<int32_t> LongText(const char* model) {
  const Json golden = ParseJson(ReadTextFile(kModels / model / "golden.json"), model);
  return golden["long"]["prompt_ids"].get<std::vector<int32_t>>();
}

// Lengths 1 to 60, greedy and sampled, shared beginnings, prompt logprobs, salts, priorities.
Request MixedRequest(const std::vector<int32_t>& text, uint32_t i) {
  Request request;
  const bool shares = i % 2 == 0;
  const auto begin = text.begin() + (shares ? 0 : static_cast<std::ptrdiff_t>(i % 40));
  request.prompt.assign(begin, begin + 1 + static_cast<std::ptrdiff_t>((i * 13) % 60));
  if (shares) request.prompt.push_back(static_cast<int32_t>(i));
  request.max_tokens = 8 + (i * 7) % 40;
  request.sampling.temperature = i % 3 == 0 ? 0.0f : 0.9f;
  request.sampling.top_p = 0.95f;
  request.sampling.repetition_penalty = 1.1f;
  request.sampling.seed = 100 + i;
  request.sampling.logprobs = 1;
  if (i % 4 == 2) {  // few tokens to choose from, so that drafts come true
    for (const int32_t token : {3, 5, 7}) request.sampling.logit_bias.emplace_back(token, 20.0f);
  }
  request.prompt_logprobs = i % 8 == 3;
  request.cache_salt = i % 5 == 0 ? "other" : "";
  request.priority = static_cast<int32_t>(i % 3);
  request.tenant = i % 4;
  return request;
}

class EnginePressure : public testing::TestWithParam<const char*> {};

TEST_P(EnginePressure, SixtyFourAtOnceAreEachAsAlone) {
  const std::vector<int32_t> text = LongText(GetParam());
  Stack alone(kModels / GetParam(),
              {.max_tokens = 128, .max_sequences = 1, .max_logit_rows = 128, .max_context = 128},
              12);
  std::vector<Answer> expected;
  for (uint32_t i = 0; i < 64; ++i) {
    RequestHandle handle = alone.engine->Submit(MixedRequest(text, i));
    expected.push_back(WaitFor(handle));
  }
  for (const PreemptionMode mode : {PreemptionMode::kRecompute, PreemptionMode::kSwap}) {
    EngineOptions options;
    options.limits.preemption = mode;
    options.limits.promise = PagePromise::kPrompt;
    // One of the two with drafts, which come and go with the room that the others leave.
    const bool drafts = mode == PreemptionMode::kSwap;
    if (drafts) options.limits.speculation = Speculation::kAlways;
    const uint32_t swap_pages = mode == PreemptionMode::kSwap ? 24 : 0;
    Stack crowd(kModels / GetParam(),
                {.max_tokens = 24, .max_sequences = 8, .max_logit_rows = 24, .max_context = 112},
                14, options, swap_pages);
    std::vector<RequestHandle> handles;
    for (uint32_t i = 0; i < 64; ++i) {
      handles.push_back(crowd.engine->Submit(MixedRequest(text, i)));
      if (i % 9 == 4) handles.back().Cancel();
      if (i % 16 == 7) crowd.engine->Submit(MixedRequest(text, i));  // gone at once
    }
    for (uint32_t i = 0; i < 64; ++i) {
      SCOPED_TRACE(testing::Message() << "request " << i << ", mode " << static_cast<int>(mode));
      const Answer answer = WaitFor(handles[i]);
      if (i % 9 != 4) {
        ExpectSame(answer, expected[i]);
        continue;
      }
      ASSERT_LE(answer.tokens.size(), expected[i].tokens.size());
      EXPECT_TRUE(
          std::equal(answer.tokens.begin(), answer.tokens.end(), expected[i].tokens.begin()));
    }
    const EngineStats stats = crowd.engine->stats();
    const bool swaps = mode == PreemptionMode::kSwap;
    EXPECT_GT(swaps ? stats.preemptions_swap : stats.preemptions_recompute, 0u);
    EXPECT_EQ(stats.accepted_tokens > 0, drafts);
    EXPECT_EQ(stats.kv.used_pages + stats.kv.promised_pages + stats.swap_used_bytes, 0u);
  }
}

TEST_P(EnginePressure, ChoicesAreEachAsAlone) {
  const std::vector<int32_t> text = LongText(GetParam());
  const StepLimits limits{
      .max_tokens = 32, .max_sequences = 4, .max_logit_rows = 32, .max_context = 112};
  for (const uint32_t prompt : {1u, 2u, 16u, 17u, 45u}) {
    for (const bool cache : {true, false}) {
      SCOPED_TRACE(testing::Message() << prompt << " tokens, prefix cache " << cache);
      Request request;
      request.prompt.assign(text.begin(), text.begin() + prompt);
      request.max_tokens = 20;
      request.sampling.temperature = 1;
      request.sampling.seed = 5;
      request.sampling.logprobs = 0;
      EngineOptions options;
      options.limits.reuse_prefixes = cache;
      Stack alone(kModels / GetParam(), limits, 12, options);
      Stack forked(kModels / GetParam(), limits, 10, options);
      std::vector<RequestHandle> handles = forked.engine->SubmitChoices(request, 6);
      ASSERT_EQ(handles.size(), 6u);
      for (uint32_t i = 0; i < 6; ++i) {
        request.choice_index = i;
        RequestHandle single = alone.engine->Submit(request);
        const Answer answer = WaitFor(handles[i]);
        ExpectSame(answer, WaitFor(single));
        EXPECT_EQ(answer.end.usage.prompt_tokens, prompt);
        if (i == 1) EXPECT_EQ(answer.end.report.shared_tokens, prompt - 1);
      }
      EXPECT_EQ(forked.engine->stats().kv.used_pages, 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EnginePressure,
                         testing::Values("qwen2_swa_mixed", "mistral_swa", "deepseek_v3",
                                         "llama_rope_dynamic"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace hadal
