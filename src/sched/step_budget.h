// How many prompt tokens a step may carry beside its decodes.
#pragma once

#include <cstdint>

#include "sched/cost_model.h"
#include "sched/limits.h"

namespace hadal {

struct BudgetInput {
  StepShape decodes;             // already in the step
  uint64_t prompt_position = 0;  // where the first prompt goes on
  // Of the prompt that has waited longest for its first token.
  uint64_t tokens_left = 0;
  double seconds_left = 0;  // to its ttft_target
  bool degraded = false;    // overload: half the chunk, so that those who run suffer less
};

// Between min_chunk and max_tokens less the decodes; all of it without decodes or itl_target.
uint32_t PromptBudget(const SchedulerLimits& limits, const CostModel& cost,
                      const BudgetInput& input);

}  // namespace hadal
