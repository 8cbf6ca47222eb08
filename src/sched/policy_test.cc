// Each policy by itself: what it learns, whom it prefers, when it refuses.
#include <gtest/gtest.h>

#include <map>

#include "sched/breaker.h"
#include "sched/scheduler_test_fixture.h"
#include "sched/step_budget.h"

namespace hadal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(OutputEstimator, LearnsHowLongAnswersAre) {
  OutputEstimator outputs;
  EXPECT_EQ(outputs.Expected(0, 10), 10u);
  EXPECT_EQ(outputs.Expected(0, 100000), 256u);  // before anything is known
  for (int i = 0; i < 300; ++i) outputs.Observe(i % 10 == 0 ? 1000 : 50);
  EXPECT_NEAR(outputs.Expected(0, 100000), 50, 10);
  EXPECT_EQ(outputs.Expected(0, 20), 20u);
  // Who is past the usual length is one of the long ones.
  EXPECT_NEAR(outputs.Expected(100, 100000), 1000, 200);
  EXPECT_EQ(outputs.Expected(5000, 100000), 10000u);
  EXPECT_EQ(outputs.Expected(5000, 5001), 5001u);
}

TEST(CostModel, FindsTheCoefficientsOfTheMachine) {
  // Neither near the typical machine: a fast one and a slow one.
  for (const double speed : {0.01, 1.0, 20.0}) {
    const auto machine = [speed](const StepShape& s) {
      return speed *
             (2e-3 + 4e-4 * static_cast<double>(s.tokens) + 2e-7 * static_cast<double>(s.context) +
              3e-5 * static_cast<double>(s.sequences));
    };
    CostModel cost;
    for (uint64_t i = 0; i < 600; ++i) {
      StepShape step{.tokens = 1 + i % 8, .context = 300 * (1 + i % 8), .sequences = 1 + i % 8};
      if (i % 3 == 0) step += RunShape(64 * (i % 7), 32 + i % 97);
      cost.Observe(step, machine(step));
    }
    StepShape probe{.tokens = 4, .context = 1200, .sequences = 4};
    EXPECT_NEAR(cost.Predict(probe) / machine(probe), 1, 0.05) << speed;
    probe += RunShape(256, 128);
    EXPECT_NEAR(cost.Predict(probe) / machine(probe), 1, 0.05) << speed;
  }
}

TEST(CostModel, DecodesAloneDoNotUnlearnPrompts) {
  CostModel cost;
  const auto machine = [](const StepShape& s) {
    return 5e-3 + 2e-4 * static_cast<double>(s.tokens);
  };
  for (uint64_t i = 0; i < 200; ++i) {
    const StepShape step = RunShape(0, 16 + i);
    cost.Observe(step, machine(step));
  }
  for (uint64_t i = 0; i < 5000; ++i) {
    const StepShape step{.tokens = 8, .context = 800, .sequences = 8};
    cost.Observe(step, machine(step));
  }
  EXPECT_NEAR(cost.Predict(RunShape(0, 256)) / machine(RunShape(0, 256)), 1, 0.25);
}

TEST(CostModel, AClockThatStandsStillTeachesNothing) {
  CostModel cost;
  const double before = cost.Predict(RunShape(0, 10));
  cost.Observe(RunShape(0, 10), 0);
  cost.Observe(RunShape(0, 10), -1);
  EXPECT_EQ(cost.Predict(RunShape(0, 10)), before);
}

TEST(StepBudget, HoldsTheTokenTarget) {
  SchedulerLimits limits;
  limits.max_tokens = 512;
  CostModel cost;
  for (uint64_t i = 0; i < 300; ++i) {  // 1 ms a token, nothing else
    const StepShape step{.tokens = 1 + (i * 37) % 300, .sequences = 1};
    cost.Observe(step, 1e-3 * static_cast<double>(step.tokens));
  }
  BudgetInput input;
  EXPECT_EQ(PromptBudget(limits, cost, input), 512u);
  input.decodes = {.tokens = 10, .sequences = 10};
  EXPECT_EQ(PromptBudget(limits, cost, input), 502u);
  limits.itl_target = 0.1;
  EXPECT_NEAR(PromptBudget(limits, cost, input), 90, 6);
  limits.itl_target = 0.001;  // cannot be held: prompts must go on all the same
  EXPECT_EQ(PromptBudget(limits, cost, input), limits.min_chunk);
  limits.itl_target = 0.1;
  limits.ttft_target = 1;
  input.tokens_left = 900;
  input.seconds_left = 2;
  EXPECT_NEAR(PromptBudget(limits, cost, input), 90, 6);
  input.seconds_left = 0.5;
  EXPECT_NEAR(PromptBudget(limits, cost, input), 190, 10);
  input.degraded = true;
  limits.itl_target = 0;
  EXPECT_EQ(PromptBudget(limits, cost, input), 251u);
}

struct QueueFixture {
  void Push(uint64_t id, uint32_t tenant, int32_t priority = 0) {
    auto sequence = std::make_unique<Sequence>();
    sequence->request.id = id;
    sequence->request.tenant = tenant;
    sequence->request.priority = priority;
    sequence->submitted = now;
    queue.Push(std::move(sequence));
    now += milliseconds(1);
  }
  uint64_t Next(double charge = 0) {
    const auto sequence = queue.TakeHead();
    queue.Charge(sequence->request.tenant, charge);
    return sequence->request.id;
  }
  TimePoint now{};
  WaitingQueue queue{10};
};

TEST(WaitingQueue, PriorityIsWorthSecondsNotEternity) {
  QueueFixture f;
  f.Push(1, 0, 1);
  f.Push(2, 0, 0);
  f.Push(3, 0, -1);
  f.now += seconds(15);
  f.Push(4, 0, 0);
  f.Push(5, 0, -2);
  // 1 has waited longer than a level is worth: 4 does not overtake it.
  EXPECT_EQ(f.Next(), 3u);
  EXPECT_EQ(f.Next(), 5u);
  EXPECT_EQ(f.Next(), 2u);
  EXPECT_EQ(f.Next(), 1u);
  EXPECT_EQ(f.Next(), 4u);
  EXPECT_TRUE(f.queue.empty());
}

TEST(WaitingQueue, TenantsShareEvenlyWhateverTheyAskFor) {
  QueueFixture f;
  for (uint64_t id = 0; id < 40; ++id) f.Push(id, 1);
  for (uint64_t id = 100; id < 140; ++id) f.Push(id, 2);
  std::map<uint32_t, double> served;
  for (int i = 0; i < 30; ++i) {
    const uint32_t tenant = f.queue.Head()->request.tenant;
    const double cost = tenant == 1 ? 300 : 100;  // one tenant's requests are bigger
    served[tenant] += cost;
    f.Next(cost);
  }
  EXPECT_NEAR(served[1], served[2], 300);
  // A third that comes late gets its share from now on, not what it did not ask for before.
  for (uint64_t id = 200; id < 220; ++id) f.Push(id, 3);
  std::map<uint32_t, int> turns;
  for (int i = 0; i < 14; ++i) {
    const uint32_t tenant = f.queue.Head()->request.tenant;
    ++turns[tenant];
    f.Next(tenant == 1 ? 300 : 100);
  }
  EXPECT_EQ(turns[1], 2);
  EXPECT_NEAR(turns[2], 6, 1);
  EXPECT_NEAR(turns[3], 6, 1);
}

TEST(WaitingQueue, ReturnedOnesComeFirstInOrderOfAdmission) {
  QueueFixture f;
  f.Push(1, 0, -100);
  for (const uint64_t admission : {9u, 7u, 8u}) {
    auto sequence = std::make_unique<Sequence>();
    sequence->request.id = 10 + admission;
    sequence->admission = admission;
    f.queue.Return(std::move(sequence));
  }
  EXPECT_EQ(f.Next(), 17u);
  EXPECT_EQ(f.Next(), 18u);
  EXPECT_EQ(f.queue.Remove(19)->request.id, 19u);
  EXPECT_EQ(f.queue.Remove(19), nullptr);
  EXPECT_EQ(f.Next(), 1u);
}

TEST(Breaker, ShedsProbesAndClosesWithHysteresis) {
  Breaker breaker({.max_wait = 10, .resume_fraction = 0.5, .probe_seconds = 2});
  TimePoint now{};
  breaker.Update(9.9, now);
  EXPECT_TRUE(breaker.Admits());
  breaker.Update(10.1, now);
  EXPECT_EQ(breaker.state(), BreakerState::kShedding);
  EXPECT_FALSE(breaker.Admits());
  EXPECT_NEAR(breaker.RetryAfter(), 5.1, 1e-9);
  breaker.Update(6, now += seconds(1));  // below the limit, but not well below
  EXPECT_FALSE(breaker.Admits());
  breaker.Update(4, now += seconds(1));
  EXPECT_EQ(breaker.state(), BreakerState::kProbing);
  EXPECT_TRUE(breaker.Admits());
  breaker.Update(7, now += seconds(1));
  EXPECT_FALSE(breaker.Admits());
  breaker.Update(11, now);
  EXPECT_EQ(breaker.state(), BreakerState::kShedding);
  breaker.Update(1, now += seconds(1));
  breaker.Update(1, now += seconds(3));
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
  EXPECT_EQ(breaker.transitions(), 5u);
}

TEST(Breaker, DegradesStepByStepAndRecovers) {
  Breaker breaker({.max_wait = 10, .degradation_seconds = 5});
  TimePoint now{};
  breaker.Update(20, now);
  EXPECT_EQ(breaker.degradation(), 0u);
  for (const uint32_t level : {1u, 2u, 3u, 3u}) {
    breaker.Update(20, now += seconds(5));
    EXPECT_EQ(breaker.degradation(), level);
  }
  breaker.Update(0, now += seconds(1));
  breaker.Update(0, now += seconds(3));
  ASSERT_EQ(breaker.state(), BreakerState::kClosed);
  breaker.Update(0, now += seconds(4));
  EXPECT_EQ(breaker.degradation(), 3u);
  for (const uint32_t level : {2u, 1u, 0u, 0u}) {
    breaker.Update(0, now += seconds(5));
    EXPECT_EQ(breaker.degradation(), level);
  }
  Breaker off({.max_wait = 0});
  off.Update(1e9, now);
  EXPECT_TRUE(off.Admits());
}

TEST(Forecast, AWaitGrowsWithTheQueueAndIsAboutRight) {
  SchedulerLimits limits{
      .max_tokens = 64, .max_sequences = 2, .max_logit_rows = 64, .max_context = 200};
  FakeStack f(limits);
  EXPECT_EQ(f.scheduler.PredictWait().wait, 0);
  EXPECT_EQ(f.scheduler.PredictWait().free_places, 2u);
  // Every request takes about 20 steps of 0.1 s, two at a time. Let it learn, then compare.
  for (uint64_t id = 1; id <= 30; ++id) f.Add(MakeRequest(id, 10, 20));
  double before = f.scheduler.PredictWait().wait;
  while (f.scheduler.n_waiting() > 10) f.Step();
  const double predicted = f.scheduler.PredictWait().wait;
  EXPECT_GT(before, 0);
  const TimePoint asked = f.now;
  f.Add(MakeRequest(99, 10, 20));
  while (f.Generated(99) == 0) f.Step();
  EXPECT_NEAR(predicted / Seconds(asked, f.now), 1, 0.4);
}

TEST(StaticBatching, CollectsComputesAndOnlyThenGoesOn) {
  SchedulerLimits limits{
      .max_tokens = 64, .max_sequences = 8, .max_logit_rows = 64, .max_context = 64};
  limits.batching = Batching::kStatic;
  limits.static_batch = 3;
  FakeStack f(limits, 64);
  f.Add(MakeRequest(1, 10, 2));
  EXPECT_TRUE(f.scheduler.Plan(f.now).empty());
  EXPECT_EQ(f.scheduler.wake_time(), f.now + milliseconds(50));
  f.Add(MakeRequest(2, 40, 6));
  f.Add(MakeRequest(3, 40, 4));
  f.Add(MakeRequest(4, 10, 1));
  EXPECT_EQ(f.Step(), (std::vector<uint64_t>{1, 2, 3}));  // full: no wait
  // Pages for the whole context each.
  EXPECT_EQ(f.kv.usage().used_pages + f.kv.usage().promised_pages, 3u * 4);
  EXPECT_EQ(f.Step(), (std::vector<uint64_t>{3}));  // the rest of the prompts comes before decodes
  EXPECT_EQ(f.Step(), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_NE(f.Finished(1), nullptr);
  EXPECT_EQ(f.Step(), (std::vector<uint64_t>{2, 3}));  // nobody takes the free place
  while (f.Finished(2) == nullptr) f.Step();
  EXPECT_EQ(f.Step(), (std::vector<uint64_t>{4}));
  EXPECT_EQ(f.Finished(4)->report.wait, AdmissionWait::kBatch);
  EXPECT_TRUE(f.AllFree());
}

}  // namespace
}  // namespace hadal
