// The scheduler's decision for one step, and what came of it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "sampling/logprobs.h"
#include "sched/sequence.h"

namespace hadal {

// Consecutive tokens of one sequence: a prompt chunk or the last generated token. Their slots are
// in sequence->pages already.
struct PlannedRun {
  Sequence* sequence = nullptr;
  uint32_t first_position = 0;
  uint32_t n_tokens = 0;
  uint32_t n_logits = 0;  // logits wanted of the last n_logits rows
  bool samples = false;   // the last row's logits choose the next token
};

struct StepPlan {
  std::vector<PlannedRun> runs;
  uint32_t n_tokens = 0;
  uint32_t n_logits = 0;
  std::vector<PageOp> page_ops;  // before the step, in this order
  uint64_t swapped_bytes = 0;    // by these
  bool empty() const { return runs.empty(); }
  void Clear() {
    runs.clear();
    page_ops.clear();
    n_tokens = n_logits = 0;
    swapped_bytes = 0;
  }
};

// One per run of the plan.
struct RunResult {
  int32_t token = -1;  // when the run samples
  std::optional<TokenLogprobs> logprobs;
  // With prompt_logprobs: of the tokens at first_position + 1, ..., within the prompt.
  std::vector<TokenLogprobs> prompt_logprobs;
  std::optional<Error> error;  // this sequence fails, the others go on
  void Clear() {
    token = -1;
    logprobs.reset();
    prompt_logprobs.clear();
    error.reset();
  }
};

}  // namespace hadal
