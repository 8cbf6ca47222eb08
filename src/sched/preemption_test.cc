#include <gtest/gtest.h>

#include "sched/scheduler_test_fixture.h"

namespace hadal {
namespace {

SchedulerLimits Limits(PreemptionMode mode, uint64_t swap_pages = 0) {
  SchedulerLimits limits{
      .max_tokens = 64, .max_sequences = 4, .max_logit_rows = 64, .max_context = 200};
  limits.preemption = mode;
  limits.swap_bytes = swap_pages * LayoutOf({0}).groups[0].page_bytes;
  limits.reuse_prefixes = false;
  return limits;
}

uint64_t CountOps(const std::vector<PageOp>& ops, PageOp::Kind kind) {
  return static_cast<uint64_t>(
      std::count_if(ops.begin(), ops.end(), [kind](const PageOp& op) { return op.kind == kind; }));
}

// Answers turn out longer than expected: two that were admitted together outgrow the pool.
struct TwoThatOutgrowThePool {
  explicit TwoThatOutgrowThePool(const SchedulerLimits& limits) : f(limits, 8) {
    f.Add(MakeRequest(1000, 2, 1));  // teaches that answers are short
    for (uint64_t id = 1001; id < 1040; ++id) f.Add(MakeRequest(id, 2, 1));
    while (!f.scheduler.idle()) f.Step();
    f.Add(MakeRequest(1, 30, 60));
    f.Add(MakeRequest(2, 30, 60));
    f.Step();
    EXPECT_EQ(f.scheduler.n_running(), 2u);
  }
  void Finish() {
    for (int i = 0; i < 300 && !f.scheduler.idle(); ++i) f.Step();
    EXPECT_EQ(f.Generated(1), 60u);
    EXPECT_EQ(f.Generated(2), 60u);
    EXPECT_TRUE(f.AllFree());
  }
  FakeStack f;
};

TEST(Preemption, TheNewestIsComputedAgainAndTheFirstIsNeverTouched) {
  TwoThatOutgrowThePool two(Limits(PreemptionMode::kRecompute));
  two.Finish();
  EXPECT_EQ(two.f.Finished(1)->report.preemptions_recompute, 0u);
  const RequestReport& report = two.f.Finished(2)->report;
  EXPECT_EQ(report.preemptions_recompute, 1u);
  EXPECT_EQ(report.preemptions_swap, 0u);
  EXPECT_GT(report.preempted_seconds, 0);
  EXPECT_GE(report.prefill_chunks, 2u);  // its prompt, then all it had
  EXPECT_EQ(two.f.scheduler.totals().preemptions_recompute, 1u);
}

TEST(Preemption, SwappedPagesComeBackAndNothingIsComputedTwice) {
  TwoThatOutgrowThePool two(Limits(PreemptionMode::kSwap, 8));
  bool out = false, in = false;
  while (!two.f.scheduler.idle()) {
    two.f.Step();
    const uint64_t n_out = CountOps(two.f.ops, PageOp::Kind::kSwapOut);
    if (n_out > 0) {
      EXPECT_EQ(two.f.scheduler.n_swapped(), 1u);
      EXPECT_EQ(two.f.ops[0].kind, PageOp::Kind::kSwapOut);  // before anything overwrites them
      EXPECT_EQ(n_out, 4u);
      out = true;
    }
    if (CountOps(two.f.ops, PageOp::Kind::kSwapIn) > 0) {
      EXPECT_EQ(CountOps(two.f.ops, PageOp::Kind::kSwapIn), 4u);
      in = true;
    }
  }
  EXPECT_TRUE(out && in);
  two.Finish();
  const RequestReport& report = two.f.Finished(2)->report;
  EXPECT_EQ(report.preemptions_swap, 1u);
  EXPECT_EQ(report.prefill_chunks, 1u);
  EXPECT_EQ(report.swapped_bytes, 8 * two.f.kv.layout().groups[0].page_bytes);
  EXPECT_EQ(two.f.scheduler.n_swapped(), 0u);
}

TEST(Preemption, AFullSwapSpaceFallsBackToComputing) {
  TwoThatOutgrowThePool two(Limits(PreemptionMode::kSwap, 2));
  two.Finish();
  EXPECT_EQ(two.f.Finished(2)->report.preemptions_recompute, 1u);
  EXPECT_EQ(two.f.scheduler.totals().swap_failures, 1u);
}

TEST(Preemption, ASwappedSequenceCanBeCancelled) {
  TwoThatOutgrowThePool two(Limits(PreemptionMode::kSwap, 8));
  while (two.f.scheduler.n_swapped() == 0) two.f.Step();
  EXPECT_TRUE(two.f.scheduler.Cancel(2, two.f.now, two.f.events));
  EXPECT_EQ(two.f.Finished(2)->reason, FinishReason::kCancelled);
  EXPECT_EQ(two.f.scheduler.swap().used_bytes(), 0u);
  while (!two.f.scheduler.idle()) two.f.Step();
  EXPECT_TRUE(two.f.AllFree());
}

TEST(Preemption, TheLowestPriorityGoesFirst) {
  SchedulerLimits limits = Limits(PreemptionMode::kRecompute);
  limits.priority_seconds = 0;  // admitted in order of arrival all the same
  FakeStack f(limits, 8);
  for (uint64_t id = 1000; id < 1040; ++id) f.Add(MakeRequest(id, 2, 1));
  while (!f.scheduler.idle()) f.Step();
  f.Add(MakeRequest(1, 14, 40));
  SequenceRequest unimportant = MakeRequest(2, 14, 40);
  unimportant.priority = 5;
  f.Add(unimportant);
  f.Add(MakeRequest(3, 14, 40));
  while (!f.scheduler.idle()) f.Step();
  EXPECT_GT(f.Finished(2)->report.preemptions_recompute, 0u);
  EXPECT_EQ(f.Finished(1)->report.preemptions_recompute, 0u);
  EXPECT_EQ(f.Finished(3)->report.preemptions_recompute, 0u);
}

TEST(Preemption, TheCostModelChooses) {
  // Every step takes 0.1 s whatever it carries, as far as this clock tells: computing again costs
  // next to nothing and bytes keep their usual price.
  SchedulerLimits limits = Limits(PreemptionMode::kAuto, 8);
  TwoThatOutgrowThePool cheap(limits);
  cheap.Finish();
  EXPECT_EQ(cheap.f.Finished(2)->report.preemptions_swap +
                cheap.f.Finished(2)->report.preemptions_recompute,
            1u);
}

TEST(Preemption, PromisedPagesAreNeverTaken) {
  SchedulerLimits limits = Limits(PreemptionMode::kRecompute);
  limits.promise = PagePromise::kMaximum;
  FakeStack f(limits, 8);
  for (uint64_t id = 1; id <= 6; ++id) f.Add(MakeRequest(id, 30, 60));
  while (!f.scheduler.idle()) f.Step();
  EXPECT_EQ(f.scheduler.totals().preemptions_recompute, 0u);
  EXPECT_TRUE(f.AllFree());
}

TEST(Preemption, ADeadDeviceFailsTheStepAndTheOthersBeginAgain) {
  SchedulerLimits limits = Limits(PreemptionMode::kSwap, 8);
  limits.max_tokens = 20;
  FakeStack f(limits, 16);
  f.Add(MakeRequest(1, 20, 5));
  f.Add(MakeRequest(2, 20, 5));
  const StepPlan& plan = f.scheduler.Plan(f.now);
  ASSERT_EQ(plan.runs.size(), 1u);  // 2 is admitted, but has no room in the step
  f.scheduler.Abort(Error(ErrorKind::kResource, "gone"), f.now, f.events);
  EXPECT_EQ(f.Finished(1)->reason, FinishReason::kError);
  EXPECT_EQ(f.Finished(2), nullptr);
  while (!f.scheduler.idle()) f.Step();
  EXPECT_EQ(f.Generated(2), 5u);
  EXPECT_TRUE(f.AllFree());
}

}  // namespace
}  // namespace hadal
