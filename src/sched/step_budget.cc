#include "sched/step_budget.h"

#include <algorithm>

#include "base/search.h"

namespace hadal {
namespace {

// The most prompt tokens with which the step stays within `seconds`.
uint32_t LargestWithin(const CostModel& cost, const BudgetInput& input, uint32_t most,
                       double seconds) {
  return static_cast<uint32_t>(Largest(0, most, [&](uint64_t n) {
    StepShape step = input.decodes;
    step += RunShape(input.prompt_position, n);
    return cost.Predict(step) <= seconds;
  }));
}

}  // namespace

uint32_t PromptBudget(const SchedulerLimits& limits, const CostModel& cost,
                      const BudgetInput& input) {
  const uint32_t room = limits.max_tokens - static_cast<uint32_t>(std::min<uint64_t>(
                                                input.decodes.tokens, limits.max_tokens));
  if (input.decodes.sequences == 0) return room;
  const uint32_t least = std::min(limits.min_chunk, room);
  uint32_t budget = room;
  if (limits.itl_target > 0) {
    budget = LargestWithin(cost, input, room, limits.itl_target);
    // At this pace, does the longest waiting prompt miss its own target?
    const double steps =
        static_cast<double>(input.tokens_left) / static_cast<double>(std::max(budget, least));
    if (limits.ttft_target > 0 && input.tokens_left > 0 &&
        steps * limits.itl_target > input.seconds_left) {
      budget = LargestWithin(cost, input, room, 2 * limits.itl_target);
    }
  }
  if (input.degraded) budget = std::min(budget, room / 2);
  return std::max(budget, least);
}

}  // namespace hadal
