#include "sched/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

namespace hadal {
namespace {

using std::chrono::seconds;

KvLayout Layout(const std::vector<uint32_t>& windows) {
  ModelSpec spec;
  spec.n_layers = static_cast<uint32_t>(windows.size());
  for (const uint32_t window : windows) spec.layers.push_back({.window = window});
  spec.attention = {.n_heads = 1, .n_kv_heads = 1, .head_dim = 4};
  return MakeKvLayout(spec, DType::kF32, 16);
}

SequenceRequest Make(uint64_t id, uint32_t prompt, uint32_t max_tokens) {
  SequenceRequest request;
  request.id = id;
  for (uint32_t i = 0; i < prompt; ++i) request.prompt.push_back(static_cast<int32_t>(i % 7));
  request.max_tokens = max_tokens;
  request.stop_ids = {99};
  return request;
}

// A scheduler whose "model" answers token 1, unless told otherwise.
struct Fixture {
  explicit Fixture(SchedulerLimits limits = {}, uint32_t pages = 64)
      : kv(Layout({0}), {pages}, limits.max_tokens), scheduler(limits, kv) {}

  void Step(int32_t token = 1) {
    const StepPlan& plan = scheduler.Plan(now);
    std::vector<RunResult> results(plan.runs.size());
    for (size_t i = 0; i < results.size(); ++i) {
      if (plan.runs[i].samples) results[i].tokens = {token};
      if (fail_id == plan.runs[i].sequence->request.id) {
        results[i].error = Error(ErrorKind::kNumeric, "NaN");
      }
    }
    now += seconds(1);
    if (!plan.empty()) scheduler.Commit(results, now, events);
  }
  const FinishedEvent* finished(uint64_t id) const {
    for (const SequenceEvent& event : events) {
      const auto* end = std::get_if<FinishedEvent>(&event.event);
      if (end != nullptr && event.sequence_id == id) return end;
    }
    return nullptr;
  }

  TimePoint now{};
  KvManager kv;
  Scheduler scheduler;
  std::vector<SequenceEvent> events;
  uint64_t fail_id = 0;
};

TEST(Scheduler, OneRequestFromQueueToLength) {
  Fixture f({.max_tokens = 16, .max_sequences = 4, .max_logit_rows = 4, .max_context = 100});
  f.scheduler.Add(Make(1, 20, 3), f.now);
  f.now += seconds(2);
  const StepPlan& plan = f.scheduler.Plan(f.now);
  ASSERT_EQ(plan.runs.size(), 1u);
  EXPECT_EQ(plan.runs[0].n_tokens, 16u);
  EXPECT_FALSE(plan.runs[0].samples);
  EXPECT_EQ(plan.n_logits, 0u);
  EXPECT_EQ(plan.page_ops.size(), 1u);
  std::vector<RunResult> results(1);
  f.now += seconds(1);
  f.scheduler.Commit(results, f.now, f.events);
  EXPECT_TRUE(f.events.empty());
  f.Step();  // the prompt's last 4 tokens and the first generated one
  f.Step();
  f.Step();
  ASSERT_EQ(f.events.size(), 4u);
  const FinishedEvent* end = f.finished(1);
  ASSERT_NE(end, nullptr);
  EXPECT_EQ(end->reason, FinishReason::kLength);
  EXPECT_EQ(end->usage.prompt_tokens, 20u);
  EXPECT_EQ(end->usage.generated_tokens, 3u);
  EXPECT_DOUBLE_EQ(end->usage.queue_seconds, 2);
  EXPECT_DOUBLE_EQ(end->usage.prefill_seconds, 2);
  EXPECT_DOUBLE_EQ(end->usage.decode_seconds, 2);
  EXPECT_TRUE(f.scheduler.idle());
  EXPECT_TRUE(f.scheduler.Plan(f.now).empty());
  EXPECT_EQ(f.kv.usage().used_pages, 0u);
}

TEST(Scheduler, StopTokenEndsTheText) {
  Fixture f;
  f.scheduler.Add(Make(1, 5, 10), f.now);
  f.Step();
  f.Step(99);
  ASSERT_NE(f.finished(1), nullptr);
  EXPECT_EQ(f.finished(1)->reason, FinishReason::kStop);
  EXPECT_EQ(f.finished(1)->usage.generated_tokens, 2u);
  EXPECT_TRUE(std::get<TokenEvent>(f.events[1].event).ends_text);
  EXPECT_FALSE(std::get<TokenEvent>(f.events[0].event).ends_text);
}

TEST(Scheduler, DecodesComeFirstThenPromptsInOrder) {
  Fixture f({.max_tokens = 8, .max_sequences = 4, .max_logit_rows = 4, .max_context = 100});
  f.scheduler.Add(Make(1, 2, 50), f.now);
  f.Step();
  f.scheduler.Add(Make(2, 10, 5), f.now);
  f.scheduler.Add(Make(3, 10, 5), f.now);
  const StepPlan& plan = f.scheduler.Plan(f.now);
  ASSERT_EQ(plan.runs.size(), 2u);
  EXPECT_EQ(plan.runs[0].sequence->request.id, 1u);
  EXPECT_EQ(plan.runs[0].first_position, 2u);
  EXPECT_EQ(plan.runs[1].sequence->request.id, 2u);
  EXPECT_EQ(plan.runs[1].n_tokens, 7u);
  std::vector<RunResult> results(2);
  results[0].tokens = {1};
  f.scheduler.Commit(results, f.now, f.events);
  const StepPlan& next = f.scheduler.Plan(f.now);
  ASSERT_EQ(next.runs.size(), 3u);
  EXPECT_EQ(next.runs[1].n_tokens, 3u);
  EXPECT_TRUE(next.runs[1].samples);
  EXPECT_EQ(next.runs[2].n_tokens, 4u);
  EXPECT_EQ(next.n_tokens, 8u);
}

TEST(Scheduler, OverloadMakesChunksSmallerAndSaysSo) {
  Fixture f({.max_tokens = 33,
             .max_sequences = 4,
             .max_logit_rows = 4,
             .max_context = 100,
             .reuse_prefixes = false});
  f.scheduler.SetDegraded(true);
  f.scheduler.Add(Make(1, 30, 5), f.now);  // alone: nobody suffers from its chunk
  f.Step();
  f.scheduler.Add(Make(2, 30, 1), f.now);
  EXPECT_EQ(f.scheduler.Plan(f.now).n_tokens, 17u);
  std::vector<RunResult> results(2);
  results[0].tokens = {1};
  f.scheduler.Commit(results, f.now, f.events);
  f.Step();
  ASSERT_NE(f.finished(2), nullptr);
  EXPECT_TRUE(f.finished(2)->report.smaller_chunks);
  f.scheduler.Add(Make(3, 4, 1), f.now);  // fits into a smaller chunk as well
  f.Step();
  ASSERT_NE(f.finished(3), nullptr);
  EXPECT_FALSE(f.finished(3)->report.smaller_chunks);
  f.Step();
  ASSERT_NE(f.finished(1), nullptr);
  EXPECT_FALSE(f.finished(1)->report.smaller_chunks);
}

TEST(Scheduler, WhatCanNeverFitIsRefusedWithBothNumbers) {
  Fixture context({.max_tokens = 64, .max_sequences = 4, .max_logit_rows = 64, .max_context = 100});
  EXPECT_NO_THROW(context.scheduler.CheckFits(90, 10));
  for (const auto& [prompt, max_tokens] :
       std::vector<std::pair<uint64_t, uint64_t>>{{90, 11}, {101, 0}, {1, ~uint64_t{0}}}) {
    try {
      context.scheduler.CheckFits(prompt, max_tokens);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      EXPECT_NE(error.message().find(fmt::format("{} tokens", prompt)), std::string::npos);
      EXPECT_NE(error.message().find("holds 100 tokens"), std::string::npos) << error.message();
    }
  }
  EXPECT_THROW(context.scheduler.CheckFits(0, 5), Error);
  Fixture pool({.max_tokens = 64, .max_sequences = 4, .max_logit_rows = 64, .max_context = 100}, 3);
  EXPECT_EQ(pool.scheduler.capacity(), 48u);
  EXPECT_THROW(pool.scheduler.CheckFits(40, 9), Error);
}

TEST(Scheduler, WaitsForPagesAndNeverOvertakes) {
  Fixture f({.max_tokens = 64,
             .max_sequences = 4,
             .max_logit_rows = 64,
             .max_context = 1000,
             .reuse_prefixes = false,
             .promise = PagePromise::kMaximum},
            4);
  f.scheduler.Add(Make(1, 20, 13), f.now);  // 32 stored: 2 pages
  f.scheduler.Add(Make(2, 40, 5), f.now);   // 3 pages: waits
  f.scheduler.Add(Make(3, 2, 2), f.now);    // would fit, but comes later
  f.Step();
  EXPECT_EQ(f.scheduler.n_running(), 1u);
  EXPECT_EQ(f.scheduler.n_waiting(), 2u);
  f.Step(99);
  f.Step();
  EXPECT_EQ(f.scheduler.n_running(), 2u);
}

TEST(Scheduler, CancelAnywhereFreesEverything) {
  Fixture f({.max_tokens = 8, .max_sequences = 2, .max_logit_rows = 8, .max_context = 100});
  f.scheduler.Add(Make(1, 3, 50), f.now);
  f.scheduler.Add(Make(2, 30, 50), f.now);
  f.scheduler.Add(Make(3, 3, 50), f.now);
  f.Step();  // 1 decodes, 2 is in its prompt, 3 waits
  for (const uint64_t id : {2u, 3u, 1u}) {
    EXPECT_TRUE(f.scheduler.Cancel(id, f.now, f.events));
    ASSERT_NE(f.finished(id), nullptr);
    EXPECT_EQ(f.finished(id)->reason, FinishReason::kCancelled);
    EXPECT_FALSE(f.scheduler.Cancel(id, f.now, f.events));
  }
  EXPECT_TRUE(f.scheduler.idle());
  EXPECT_EQ(f.kv.usage().used_pages + f.kv.usage().promised_pages, 0u);
}

TEST(Scheduler, OneSequencesErrorLeavesTheOthersAlone) {
  Fixture f;
  f.scheduler.Add(Make(1, 3, 5), f.now);
  f.scheduler.Add(Make(2, 3, 5), f.now);
  f.fail_id = 1;
  f.Step();
  ASSERT_NE(f.finished(1), nullptr);
  EXPECT_EQ(f.finished(1)->reason, FinishReason::kError);
  EXPECT_EQ(f.finished(1)->error->message(), "NaN");
  EXPECT_EQ(f.finished(2), nullptr);
  EXPECT_EQ(f.scheduler.n_running(), 1u);
}

TEST(Scheduler, PromptLogprobsStayWithinTheLogitRows) {
  Fixture f({.max_tokens = 64, .max_sequences = 4, .max_logit_rows = 10, .max_context = 1000});
  SequenceRequest request = Make(1, 25, 0);
  request.prompt_logprobs = true;
  f.scheduler.Add(std::move(request), f.now);
  f.scheduler.Add(Make(2, 12, 2), f.now);
  const StepPlan& plan = f.scheduler.Plan(f.now);
  EXPECT_EQ(plan.n_logits, 10u);
  ASSERT_EQ(plan.runs.size(), 2u);
  EXPECT_EQ(plan.runs[0].n_tokens, 10u);
  EXPECT_EQ(plan.runs[1].n_tokens, 11u);  // its last token needs a row: the next step
  EXPECT_FALSE(plan.runs[1].samples);
  std::vector<RunResult> results(2);
  f.scheduler.Commit(results, f.now, f.events);
  f.Step();
  f.Step();
  ASSERT_NE(f.finished(1), nullptr);
  EXPECT_EQ(f.finished(1)->reason, FinishReason::kLength);
  EXPECT_EQ(f.finished(1)->usage.generated_tokens, 0u);
  f.Step();
  EXPECT_NE(f.finished(2), nullptr);
}

TEST(Scheduler, AKnownBeginningIsNotComputedAgain) {
  Fixture f({.max_tokens = 64, .max_sequences = 4, .max_logit_rows = 64, .max_context = 1000});
  f.scheduler.Add(Make(1, 40, 12), f.now);
  while (!f.scheduler.idle()) f.Step();
  // The same text, its answer and more: 40 + 11 stored tokens are three full pages.
  SequenceRequest next = Make(2, 40, 2);
  for (int i = 0; i < 20; ++i) next.prompt.push_back(1);
  f.scheduler.Add(next, f.now);
  const StepPlan& plan = f.scheduler.Plan(f.now);
  EXPECT_EQ(plan.runs[0].first_position, 48u);
  EXPECT_EQ(plan.runs[0].n_tokens, 12u);
  EXPECT_EQ(f.kv.usage().used_pages, 4u);
  std::vector<RunResult> results(1);
  results[0].tokens = {1};
  f.scheduler.Commit(results, f.now, f.events);
  f.Step();
  EXPECT_EQ(f.finished(2)->usage.cached_tokens, 48u);
  // Exactly a known text: its last token is computed all the same.
  f.scheduler.Add(Make(3, 32, 2), f.now);
  EXPECT_EQ(f.scheduler.Plan(f.now).runs[0].first_position, 16u);
}

TEST(Scheduler, LengthDependentKvIsSharedByEqualLengthsOnly) {
  Fixture f({.max_tokens = 64,
             .max_sequences = 4,
             .max_logit_rows = 64,
             .max_context = 1000,
             .reuse_prefixes = true,
             .kv_depends_on_length = true});
  f.scheduler.Add(Make(1, 40, 2), f.now);
  while (!f.scheduler.idle()) f.Step();
  f.scheduler.Add(Make(2, 41, 2), f.now);
  f.scheduler.Add(Make(3, 40, 2), f.now);
  while (!f.scheduler.idle()) f.Step();
  EXPECT_EQ(f.finished(2)->usage.cached_tokens, 0u);
  EXPECT_EQ(f.finished(3)->usage.cached_tokens, 32u);
}

// Thousands of steps of random arrivals, cancellations, errors and stops.
class SchedulerSoak
    : public testing::TestWithParam<std::tuple<std::vector<uint32_t>, Speculation>> {};

TEST_P(SchedulerSoak, NoLeakNoStarvationNoOverrun) {
  std::mt19937 random(11);
  const auto& [windows, speculation] = GetParam();
  const KvLayout layout = Layout(windows);
  const SchedulerLimits limits{.max_tokens = 24,
                               .max_sequences = 6,
                               .max_logit_rows = 8,
                               .max_context = 120,
                               .promise = PagePromise::kPrompt,
                               .swap_bytes = 12 * layout.groups[0].page_bytes,
                               .speculation = speculation,
                               .max_draft = 5};
  KvManager kv(layout, std::vector<uint32_t>(layout.groups.size(), 14), limits.max_tokens);
  Scheduler scheduler(limits, kv);
  struct Expected {
    SequenceRequest request;
    uint32_t next_position = 0, generated = 0, steps_waited = 0, preemptions = 0;
  };
  std::map<uint64_t, Expected> open;
  std::vector<SequenceEvent> events;
  uint64_t next_id = 1, finished = 0, last_admitted = 0, cached = 0;
  TimePoint now{};
  const auto take_events = [&] {
    for (const SequenceEvent& event : events) {
      ASSERT_TRUE(open.count(event.sequence_id)) << "an event after the end";
      if (std::holds_alternative<TokenEvent>(event.event)) ++open[event.sequence_id].generated;
      if (const auto* end = std::get_if<FinishedEvent>(&event.event)) {
        ASSERT_EQ(end->usage.generated_tokens, open[event.sequence_id].generated);
        ASSERT_GE(end->usage.queue_seconds, 0);
        ASSERT_LT(end->usage.cached_tokens, end->usage.prompt_tokens);
        cached += end->usage.cached_tokens;
        open.erase(event.sequence_id);
        ++finished;
      }
    }
    events.clear();
  };
  for (int step = 0; step < 6000; ++step) {
    const bool draining = step >= 5000;
    // Answers are short for a while, then longer than anyone expects.
    const uint32_t stop_after = step / 500 % 2 == 0 ? 3 : 300;
    if (!draining && open.size() < 10 && random() % 2 == 0) {
      const uint32_t prompt = 1 + random() % 100, max_tokens = random() % (121 - prompt);
      SequenceRequest request = Make(next_id, prompt, max_tokens);
      request.prompt_logprobs = random() % 8 == 0;
      open[next_id++].request = request;
      scheduler.Add(std::move(request), now);
    }
    if (!open.empty() && random() % 20 == 0) {
      auto it = open.begin();
      std::advance(it, random() % open.size());
      ASSERT_TRUE(scheduler.Cancel(it->first, now, events));
      take_events();
    }
    const StepPlan& plan = scheduler.Plan(now);
    ASSERT_LE(plan.n_tokens, limits.max_tokens);
    ASSERT_LE(plan.n_logits, limits.max_logit_rows);
    ASSERT_LE(plan.runs.size(), limits.max_sequences);
    std::vector<RunResult> results(plan.runs.size());
    uint32_t tokens = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      const PlannedRun& run = plan.runs[i];
      Expected& expected = open[run.sequence->request.id];
      if (expected.next_position == 0) expected.next_position = run.sequence->n_cached;
      const RequestReport& report = run.sequence->report;
      const uint32_t preemptions = report.preemptions_recompute + report.preemptions_swap;
      if (preemptions > std::exchange(expected.preemptions, preemptions)) {
        expected.next_position = run.first_position;  // back, or on when others left more of it
      }
      ASSERT_EQ(run.first_position, expected.next_position);
      ASSERT_EQ(run.sequence->pages.n_tokens(), run.first_position + run.n_tokens);
      expected.next_position += run.n_tokens - static_cast<uint32_t>(run.draft.size());
      expected.steps_waited = 0;
      tokens += run.n_tokens;
      last_admitted = std::max(last_admitted, run.sequence->request.id);
      for (const int32_t token : run.draft) {
        if (random() % 3 == 0) break;
        results[i].tokens.push_back(token);
      }
      expected.next_position += static_cast<uint32_t>(results[i].tokens.size());
      if (run.samples) results[i].tokens.push_back(random() % stop_after == 0 ? 99 : 1);
      if (random() % 100 == 0) results[i].error = Error(ErrorKind::kNumeric, "NaN");
    }
    ASSERT_EQ(tokens, plan.n_tokens);
    for (auto& [id, expected] : open) {
      // First come, first served: whoever runs came no later than all who wait.
      ASSERT_LT(expected.steps_waited++, 600u) << "starved";
      if (expected.next_position == 0) {
        ASSERT_GE(id + limits.max_sequences, last_admitted);
      }
    }
    now += std::chrono::milliseconds(1);
    if (!plan.empty()) scheduler.Commit(results, now, events);
    take_events();
  }
  EXPECT_TRUE(scheduler.idle());
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(finished, next_id - 1);
  EXPECT_GT(finished, 500u);
  EXPECT_GT(cached, 1000u);
  EXPECT_GT(scheduler.totals().preemptions_recompute + scheduler.totals().preemptions_swap, 10u);
  EXPECT_EQ(scheduler.swap().used_bytes(), 0u);
  EXPECT_EQ(kv.usage().used_pages + kv.usage().promised_pages + kv.usage().unused_slots, 0u);
  const SchedulerTotals& totals = scheduler.totals();
  if (speculation == Speculation::kAlways) {
    EXPECT_GT(totals.accepted_tokens, 1000u);
    EXPECT_GT(totals.drafted_tokens, totals.accepted_tokens + 1000);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Windows, SchedulerSoak,
    testing::Combine(testing::Values(std::vector<uint32_t>{0}, std::vector<uint32_t>{20},
                                     std::vector<uint32_t>{0, 20, 7}),
                     testing::Values(Speculation::kOff, Speculation::kAlways)));

}  // namespace
}  // namespace hadal
