// The scheduler's decision for one step, and what came of it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "sampling/logprobs.h"
#include "sched/sequence.h"

namespace hadal {

// Consecutive tokens of one sequence: a prompt chunk, or the last generated token and a draft of
// those that may follow it. Their slots are in sequence->pages already.
struct PlannedRun {
  Sequence* sequence = nullptr;
  uint32_t first_position = 0;
  uint32_t n_tokens = 0;
  uint32_t n_logits = 0;  // logits wanted of the last n_logits rows
  bool samples = false;   // the row before the draft chooses the next token, and each draft that
                          // turns out to be that token the one after it
  std::span<const int32_t> draft = {};  // the last of the n_tokens: not in the sequence yet

  // The i-th of the n_tokens.
  int32_t token(uint32_t i) const {
    const auto known = n_tokens - static_cast<uint32_t>(draft.size());
    return i < known ? sequence->token(first_position + i) : draft[i - known];
  }
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
  // When the run samples: the draft tokens that came true, as far as each is what the row before it
  // chose, and what the last row in force chose.
  std::vector<int32_t> tokens;
  std::vector<TokenLogprobs> logprobs;  // one per token, when asked for
  // With prompt_logprobs: of the tokens at first_position + 1, ..., within the prompt.
  std::vector<TokenLogprobs> prompt_logprobs;
  std::optional<Error> error;  // this sequence fails, the others go on
  void Clear() {
    tokens.clear();
    logprobs.clear();
    prompt_logprobs.clear();
    error.reset();
  }
};

}  // namespace hadal
