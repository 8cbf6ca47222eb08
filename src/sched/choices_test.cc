#include <gtest/gtest.h>

#include "sched/scheduler_test_fixture.h"

namespace hadal {
namespace {

std::vector<SequenceRequest> Choices(uint64_t first_id, uint32_t n, uint32_t prompt,
                                     uint32_t max_tokens) {
  std::vector<SequenceRequest> choices;
  for (uint32_t i = 0; i < n; ++i) {
    choices.push_back(MakeRequest(first_id, prompt, max_tokens));
    choices.back().id = first_id + i;
    choices.back().choice_index = i;
  }
  return choices;
}

SchedulerLimits Limits() {
  SchedulerLimits limits{
      .max_tokens = 64, .max_sequences = 4, .max_logit_rows = 64, .max_context = 200};
  limits.reuse_prefixes = false;  // what is shared is shared by the choices alone
  return limits;
}

TEST(Choices, ThePromptIsComputedOnceAndItsFullPagesShared) {
  FakeStack f(Limits());
  f.scheduler.AddChoices(Choices(1, 3, 40, 5), f.now);
  EXPECT_EQ(f.scheduler.n_waiting(), 3u);
  EXPECT_EQ(f.Step(), (std::vector<uint64_t>{1}));
  EXPECT_EQ(f.n_tokens, 40u);
  EXPECT_EQ(f.Step(), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(f.n_tokens, 3u);  // a decode, and the last prompt token of the others
  // Two whole pages shared, a partial one each.
  EXPECT_EQ(f.kv.usage().used_pages, 2u + 3);
  EXPECT_EQ(f.ops.size(), 2u);
  EXPECT_EQ(f.ops[0].kind, PageOp::Kind::kCopy);
  while (!f.scheduler.idle()) f.Step();
  for (const uint64_t id : {1u, 2u, 3u}) {
    EXPECT_EQ(f.Generated(id), 5u);
    EXPECT_EQ(f.Finished(id)->report.shared_tokens, id == 1 ? 0u : 39u);
    EXPECT_EQ(f.Finished(id)->usage.cached_tokens, 0u);
  }
  EXPECT_TRUE(f.AllFree());
}

TEST(Choices, OneTokenEachStillComputesThePromptOnce) {
  FakeStack f(Limits());
  f.scheduler.AddChoices(Choices(1, 4, 33, 1), f.now);
  f.Step();
  EXPECT_NE(f.Finished(1), nullptr);
  f.Step();
  EXPECT_EQ(f.n_tokens, 3u);
  EXPECT_TRUE(f.scheduler.idle());
  EXPECT_TRUE(f.AllFree());
}

TEST(Choices, TheNextTakesOverWhenTheFirstGoes) {
  SchedulerLimits limits = Limits();
  limits.max_tokens = 16;
  FakeStack f(limits);
  f.scheduler.AddChoices(Choices(1, 3, 40, 5), f.now);
  f.Step();  // a chunk of the prompt
  EXPECT_TRUE(f.scheduler.Cancel(1, f.now, f.events));
  EXPECT_TRUE(f.scheduler.Cancel(3, f.now, f.events));  // while it waits for the prompt
  while (!f.scheduler.idle()) f.Step();
  EXPECT_EQ(f.Generated(2), 5u);
  EXPECT_EQ(f.Finished(3)->reason, FinishReason::kCancelled);
  EXPECT_TRUE(f.AllFree());
}

TEST(Choices, MoreThanMayRunWaitAndStillShare) {
  FakeStack f(Limits());
  f.scheduler.AddChoices(Choices(1, 9, 40, 20), f.now);
  uint64_t computed = 0;
  while (!f.scheduler.idle()) {
    f.Step();
    computed += f.n_tokens;
  }
  for (uint64_t id = 1; id <= 9; ++id) EXPECT_EQ(f.Generated(id), 20u);
  // The first three followers share; those that wait till the first is done compute the prompt.
  EXPECT_EQ(f.Finished(4)->report.shared_tokens, 39u);
  EXPECT_LT(computed, 9u * 60);
  EXPECT_TRUE(f.AllFree());
}

TEST(Choices, PromptLogprobsAreEachChoicesOwn) {
  FakeStack f(Limits());
  std::vector<SequenceRequest> choices = Choices(1, 2, 20, 2);
  for (SequenceRequest& choice : choices) choice.prompt_logprobs = true;
  f.scheduler.AddChoices(std::move(choices), f.now);
  f.Step();
  EXPECT_EQ(f.n_tokens, 40u);
}

}  // namespace
}  // namespace hadal
