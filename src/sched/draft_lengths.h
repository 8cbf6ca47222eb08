// How much of each draft is worth computing.
#pragma once

#include <cstdint>
#include <span>

#include "sched/cost_model.h"
#include "sched/draft.h"

namespace hadal {

// One decoding sequence of a step.
struct DraftChoice {
  const DraftRecord* record = nullptr;
  uint32_t match = 0;     // of its draft
  uint32_t most = 0;      // tokens of it that may be computed; 0: there is none
  uint64_t position = 0;  // of the first of them
  uint32_t length = 0;    // the answer
};

struct DraftBudget {
  uint32_t rows = 0;    // that the step has left
  double seconds = 0;   // that the whole step may take; 0: no limit
  bool always = false;  // as much as there is room for, worth it or not
};

// Sets the lengths. Each token of a draft is worth the chance that it and those before it come
// true, and costs what the cost model says one more row does; it is computed while that adds to the
// tokens per second which the decodes of the step (all of `choices`, one token each at least) get
// out of it. `base`: the step without drafts. Pure.
void ChooseDraftLengths(const CostModel& cost, const StepShape& base, const DraftBudget& budget,
                        std::span<DraftChoice> choices);

// One more row with logits, at `position`.
StepShape DraftRowShape(uint64_t position);

}  // namespace hadal
