// Drafts in the scheduler: what they may take, and what becomes of them.
#include <gtest/gtest.h>

#include "sched/scheduler_test_fixture.h"

namespace hadal {
namespace {

SchedulerLimits Limits(Speculation speculation = Speculation::kAlways, uint32_t max_draft = 4) {
  SchedulerLimits limits{
      .max_tokens = 64, .max_sequences = 4, .max_logit_rows = 64, .max_context = 400};
  limits.speculation = speculation;
  limits.max_draft = max_draft;
  return limits;
}

// MakeRequest's prompts repeat seven tokens; this text goes on so.
int32_t Loop(uint64_t id, uint32_t position) {
  return static_cast<int32_t>(id + position % 7);
}

std::vector<int32_t> LoopFrom(uint64_t id, uint32_t first, uint32_t n) {
  std::vector<int32_t> tokens;
  for (uint32_t i = 0; i < n; ++i) tokens.push_back(Loop(id, first + i));
  return tokens;
}

void Finish(FakeStack& f) {
  for (int i = 0; i < 3000 && !f.scheduler.idle(); ++i) f.Step();
  EXPECT_TRUE(f.scheduler.idle());
  EXPECT_TRUE(f.AllFree());
}

TEST(Speculation, ATrueDraftGivesManyTokensAStep) {
  FakeStack f(Limits());
  f.text = Loop;
  f.Add(MakeRequest(1, 30, 21));
  f.Step();
  EXPECT_EQ(f.drafts, (std::vector<uint32_t>{0}));  // nothing is guessed behind a prompt
  for (int i = 0; i < 4; ++i) {
    f.Step();
    EXPECT_EQ(f.drafts, (std::vector<uint32_t>{4}));
    EXPECT_EQ(f.n_tokens, 5u);
    EXPECT_EQ(f.n_logits, 5u);
  }
  EXPECT_EQ(f.Tokens(1), LoopFrom(1, 30, 21));
  const FinishedEvent* end = f.Finished(1);
  ASSERT_NE(end, nullptr);
  EXPECT_EQ(end->reason, FinishReason::kLength);
  EXPECT_EQ(end->usage.generated_tokens, 21u);
  EXPECT_EQ(end->report.steps, 5u);
  EXPECT_EQ(end->report.drafted_tokens, 16u);
  EXPECT_EQ(end->report.accepted_tokens, 16u);
  EXPECT_EQ(f.scheduler.totals().accepted_tokens, 16u);
  EXPECT_TRUE(f.AllFree());
}

TEST(Speculation, APartlyTrueDraftIsKeptSoFar) {
  FakeStack f(Limits());
  f.text = [](uint64_t id, uint32_t p) { return p == 33 ? 77 : Loop(id, p); };
  f.Add(MakeRequest(1, 30, 40));
  f.Step();
  f.Step();  // 31 and 32 come true, 33 does not
  EXPECT_EQ(f.drafts, (std::vector<uint32_t>{4}));
  EXPECT_EQ(f.Tokens(1), (std::vector<int32_t>{Loop(1, 30), Loop(1, 31), Loop(1, 32), 77}));
  EXPECT_EQ(f.kv.usage().unused_slots, 48u - 33);
  const StepPlan& plan = f.scheduler.Plan(f.now);
  EXPECT_EQ(plan.runs[0].first_position, 33u);
  EXPECT_EQ(plan.runs[0].token(0), 77);
  EXPECT_TRUE(plan.runs[0].draft.empty());  // 77 is new
  std::vector<RunResult> results(1);
  results[0].tokens = {Loop(1, 34)};
  f.scheduler.Commit(results, f.now, f.events);
  Finish(f);
  EXPECT_EQ(f.Generated(1), 40u);
}

// Whatever is guessed and however wrong, pages, promises and what the prefix cache knows are at
// every step what they are without drafts.
TEST(Speculation, WrongDraftsLeaveNoTrace) {
  for (const PagePromise promise : {PagePromise::kExpected, PagePromise::kMaximum}) {
    SchedulerLimits off = Limits(Speculation::kOff), always = Limits();
    off.promise = always.promise = promise;
    FakeStack plain(off), drafting(always);
    // Two tokens of the loop, then one that is new: two agree every time, and never go on.
    const auto text = [](uint64_t id, uint32_t p) {
      return p % 3 == 0 ? static_cast<int32_t>(100 + p) : Loop(id, p % 3);
    };
    plain.text = drafting.text = text;
    for (const uint64_t id : {1u, 2u, 3u}) {
      plain.Add(MakeRequest(id, 30 + static_cast<uint32_t>(id), 60));
      drafting.Add(MakeRequest(id, 30 + static_cast<uint32_t>(id), 60));
    }
    while (!plain.scheduler.idle()) {
      plain.Step();
      drafting.Step();
      const KvUsage expected = plain.kv.usage(), got = drafting.kv.usage();
      ASSERT_EQ(got.used_pages, expected.used_pages);
      ASSERT_EQ(got.promised_pages, expected.promised_pages);
      ASSERT_EQ(got.unused_slots, expected.unused_slots);
      ASSERT_EQ(got.known_blocks, expected.known_blocks);
    }
    EXPECT_TRUE(drafting.AllFree());
    EXPECT_GT(drafting.scheduler.totals().drafted_tokens, 100u);
    EXPECT_EQ(drafting.scheduler.totals().accepted_tokens, 0u);
    for (const uint64_t id : {1u, 2u, 3u}) EXPECT_EQ(drafting.Tokens(id), plain.Tokens(id));
  }
}

TEST(Speculation, WhatCameTrueIsFoundAgainByLaterTexts) {
  FakeStack f(Limits());
  f.text = [](uint64_t id, uint32_t p) { return p == 47 ? 77 : Loop(id, p); };
  f.Add(MakeRequest(1, 30, 30));
  Finish(f);
  EXPECT_GT(f.scheduler.totals().accepted_tokens, 10u);
  // 59 tokens of it are stored: three blocks.
  EXPECT_EQ(f.kv.usage().known_blocks, 3u);
  SequenceRequest next = MakeRequest(1, 30, 2);
  const std::vector<int32_t> answer = f.Tokens(1);
  next.id = 2;
  next.prompt.insert(next.prompt.end(), answer.begin(), answer.end());
  f.Add(next);
  Finish(f);
  EXPECT_EQ(f.Finished(2)->usage.cached_tokens, 48u);
}

TEST(Speculation, ATokenThatEndsTheTextInsideADraft) {
  FakeStack f(Limits());
  f.text = [](uint64_t id, uint32_t p) { return p == 32 ? 99 : Loop(id, p); };
  f.Add(MakeRequest(1, 30, 40));
  Finish(f);
  EXPECT_EQ(f.Tokens(1), (std::vector<int32_t>{Loop(1, 30), Loop(1, 31), 99}));
  EXPECT_EQ(f.Finished(1)->reason, FinishReason::kStop);
  for (const SequenceEvent& event : f.events) {
    const auto* token = std::get_if<TokenEvent>(&event.event);
    if (token != nullptr) {
      EXPECT_EQ(token->ends_text, token->token == 99);
    }
  }
}

TEST(Speculation, NothingIsGuessedBehindATokenThatEndsTheText) {
  FakeStack f(Limits());
  SequenceRequest request = MakeRequest(1, 30, 40);
  for (uint32_t p = 0; p < 30; p += 7) request.prompt[p] = 99;  // as in a conversation
  f.text = [](uint64_t id, uint32_t p) { return p % 7 == 0 ? 99 : Loop(id, p); };
  f.Add(request);
  f.Step();
  f.Step();
  EXPECT_EQ(f.drafts, (std::vector<uint32_t>{4}));  // 31 to 34; 35 ends the text
  f.Step();
  EXPECT_TRUE(f.drafts.empty() || f.drafts[0] == 0);
  Finish(f);
  EXPECT_EQ(f.Generated(1), 6u);
  EXPECT_EQ(f.Finished(1)->reason, FinishReason::kStop);
}

TEST(Speculation, NoDraftGoesBeyondMaxTokens) {
  for (uint32_t max_tokens = 1; max_tokens < 12; ++max_tokens) {
    SchedulerLimits limits = Limits();
    limits.max_context = 30 + max_tokens;
    FakeStack f(limits, 3);
    f.text = Loop;
    f.Add(MakeRequest(1, 30, max_tokens));
    Finish(f);
    EXPECT_EQ(f.Tokens(1), LoopFrom(1, 30, max_tokens));
    EXPECT_EQ(f.Finished(1)->reason, FinishReason::kLength);
    // Each step gives one token more than came true.
    const RequestReport& report = f.Finished(1)->report;
    EXPECT_EQ(report.steps + report.accepted_tokens, max_tokens);
    EXPECT_EQ(report.drafted_tokens, report.accepted_tokens);
  }
}

TEST(Speculation, WithoutFreePagesADraftEndsWithThePage) {
  SchedulerLimits limits = Limits();
  limits.promise = PagePromise::kPrompt;
  FakeStack f(limits, 4);
  f.text = Loop;
  f.Add(MakeRequest(1, 29, 3));
  f.Add(MakeRequest(2, 27, 3));
  f.Step();
  EXPECT_EQ(f.kv.usage().used_pages, 4u);
  f.Step();
  EXPECT_EQ(f.drafts, (std::vector<uint32_t>{1, 1}));  // max_tokens
  Finish(f);
  f.Add(MakeRequest(1, 29, 30));
  f.Add(MakeRequest(2, 27, 30));
  f.Step();
  f.Step();
  // Rows at 29 and 27; pages end behind 31.
  EXPECT_EQ(f.drafts, (std::vector<uint32_t>{2, 4}));
  EXPECT_EQ(f.scheduler.totals().preemptions_recompute + f.scheduler.totals().preemptions_swap, 0u);
  Finish(f);
}

TEST(Speculation, PreemptedSequencesGoOnWhereTheyWere) {
  for (const PreemptionMode mode : {PreemptionMode::kRecompute, PreemptionMode::kSwap}) {
    SchedulerLimits limits = Limits();
    limits.promise = PagePromise::kPrompt;
    limits.preemption = mode;
    limits.swap_bytes = 8 * LayoutOf({0}).groups[0].page_bytes;
    FakeStack f(limits, 8);
    // Wrong now and then.
    f.text = [](uint64_t id, uint32_t p) { return p % 11 == 0 ? 50 : Loop(id, p); };
    for (const uint64_t id : {1u, 2u, 3u}) f.Add(MakeRequest(id, 30, 70));
    Finish(f);
    for (const uint64_t id : {1u, 2u, 3u}) {
      std::vector<int32_t> expected;
      for (uint32_t p = 30; p < 100; ++p) expected.push_back(f.text(id, p));
      EXPECT_EQ(f.Tokens(id), expected);
    }
    const SchedulerTotals& totals = f.scheduler.totals();
    EXPECT_GT(totals.preemptions_recompute + totals.preemptions_swap, 0u);
    EXPECT_GT(totals.accepted_tokens, 10u);
    EXPECT_GT(totals.drafted_tokens, totals.accepted_tokens);
  }
}

TEST(Speculation, DecodesAndPromptsComeFirst) {
  SchedulerLimits limits = Limits();
  limits.max_tokens = 16;
  FakeStack f(limits);
  f.text = Loop;
  f.Add(MakeRequest(1, 14, 100));
  f.Step();
  f.Add(MakeRequest(2, 28, 50));
  f.Step();
  EXPECT_EQ(f.n_tokens, 16u);  // one decode, 15 of the prompt
  EXPECT_EQ(f.drafts, (std::vector<uint32_t>{0, 0}));
  f.Step();  // the prompt's last 13: two rows are left
  EXPECT_EQ(f.drafts, (std::vector<uint32_t>{2, 0}));
  EXPECT_EQ(f.n_tokens, 16u);
  f.scheduler.SetDegraded(true);
  f.Add(MakeRequest(3, 4, 1));
  f.Step();
  EXPECT_EQ(f.drafts, (std::vector<uint32_t>{0, 0, 0}));
  f.scheduler.SetDegraded(false);
  Finish(f);
}

TEST(Speculation, NoMoreLogitsThanTheStepHasRowsFor) {
  const auto second_step = [](uint32_t rows, const std::vector<uint32_t>& drafts) {
    SchedulerLimits limits = Limits();
    limits.max_logit_rows = rows;
    FakeStack f(limits);
    f.text = Loop;
    for (const uint64_t id : {1u, 2u, 3u, 4u}) f.Add(MakeRequest(id, 14, 50));
    f.Step();
    f.Step();
    EXPECT_EQ(f.drafts, drafts) << rows;
    EXPECT_EQ(f.n_logits, rows);
    Finish(f);
  };
  second_step(6, {1, 1, 0, 0});
  second_step(4, {0, 0, 0, 0});
}

TEST(Speculation, CancelledFailedAndAbortedStepsLeaveNothing) {
  FakeStack f(Limits());
  f.text = Loop;
  f.Add(MakeRequest(1, 30, 50));
  f.Add(MakeRequest(2, 30, 50));
  f.Step();
  f.Step();
  ASSERT_TRUE(f.scheduler.Cancel(1, f.now, f.events));
  const StepPlan& plan = f.scheduler.Plan(f.now);
  ASSERT_EQ(plan.runs[0].draft.size(), 4u);
  std::vector<RunResult> results(1);
  results[0].error = Error(ErrorKind::kNumeric, "NaN");
  f.scheduler.Commit(results, f.now, f.events);
  EXPECT_EQ(f.Finished(2)->reason, FinishReason::kError);
  EXPECT_TRUE(f.AllFree());
  f.Add(MakeRequest(3, 30, 50));
  f.Step();
  ASSERT_EQ(f.scheduler.Plan(f.now).runs[0].draft.size(), 4u);
  f.scheduler.Abort(Error(ErrorKind::kResource, "gone"), f.now, f.events);
  Finish(f);
}

// --- auto ---

struct AutoStack : FakeStack {
  AutoStack(double step, double row) : FakeStack(Limits(Speculation::kAuto, 8)) {
    seconds = [step, row](const StepPlan& plan) { return step + row * plan.n_tokens; };
  }
  // Tokens per second of an answer.
  double Rate(uint64_t id) const {
    const Usage& usage = Finished(id)->usage;
    return (usage.generated_tokens - 1) / usage.decode_seconds;
  }
};

TEST(Speculation, AutoTakesWhatGains) {
  AutoStack f(10e-3, 0.5e-3);
  f.text = Loop;
  f.Add(MakeRequest(1, 30, 300));
  Finish(f);
  EXPECT_EQ(f.Tokens(1), LoopFrom(1, 30, 300));
  EXPECT_GT(f.Rate(1), 4 / 10.5e-3);
}

TEST(Speculation, AutoLeavesWhatDoesNot) {
  // Every row costs as much as a step.
  AutoStack dear(0.1e-3, 10e-3);
  dear.text = Loop;
  dear.Add(MakeRequest(1, 30, 300));
  Finish(dear);
  EXPECT_LT(dear.scheduler.totals().drafted_tokens, 30u);
  EXPECT_GT(dear.Rate(1), 0.97 / 10.1e-3);
  // Two tokens agree all the time, and the next is always new.
  AutoStack wrong(10e-3, 3e-3);
  wrong.text = [](uint64_t id, uint32_t p) {
    return p % 3 == 0 ? static_cast<int32_t>(100 + p) : Loop(id, p % 3);
  };
  wrong.Add(MakeRequest(1, 30, 300));
  Finish(wrong);
  EXPECT_LT(wrong.scheduler.totals().drafted_tokens, 10u);
  EXPECT_GT(wrong.Rate(1), 0.97 / 13e-3);
}

TEST(Speculation, AutoComesBackWhenTheTextBeginsToRepeat) {
  AutoStack f(10e-3, 1e-3);
  f.text = [](uint64_t id, uint32_t p) {
    return p % 3 == 0 && p < 200 ? static_cast<int32_t>(100 + p) : Loop(id, p < 200 ? p % 3 : p);
  };
  f.Add(MakeRequest(1, 30, 360));
  for (int i = 0; i < 165; ++i) f.Step();
  EXPECT_LT(f.scheduler.totals().drafted_tokens, 10u);
  EXPECT_LT(f.Generated(1), 170u);
  Finish(f);
  EXPECT_GT(f.scheduler.totals().accepted_tokens, 100u);
}

}  // namespace
}  // namespace hadal
