// What the engine reports about itself.
#pragma once

#include <cstdint>

#include "kv/kv_manager.h"
#include "sched/breaker.h"

namespace hadal {

// A snapshot taken after each step. Counts are since the start.
struct EngineStats {
  uint64_t steps = 0;
  uint64_t prompt_tokens = 0;  // computed, not cached ones
  uint64_t generated_tokens = 0;
  uint64_t n_waiting = 0;  // swapped ones included
  uint64_t n_running = 0;
  uint64_t n_swapped = 0;  // preempted, their KV in the swap space
  KvUsage kv;

  uint64_t prefix_query_tokens = 0;  // of admitted prompts
  uint64_t prefix_hit_tokens = 0;    // of those, found
  uint64_t preemptions_recompute = 0;
  uint64_t preemptions_swap = 0;
  uint64_t drafted_tokens = 0;   // speculation: computed in advance
  uint64_t accepted_tokens = 0;  // of those, generated
  uint64_t swapped_out_bytes = 0;
  uint64_t swapped_in_bytes = 0;
  uint64_t swap_used_bytes = 0;
  uint64_t swap_bytes = 0;  // that there are

  // Of the last step.
  uint32_t step_tokens = 0;
  uint32_t batch_size = 0;
  double step_seconds = 0;
  // Batch preparation: sums over all steps.
  double positions_seconds = 0;
  double page_tables_seconds = 0;
  double ragged_index_seconds = 0;

  BreakerState breaker = BreakerState::kClosed;
  uint32_t degradation_level = 0;
  double predicted_wait_seconds = 0;  // of a request that came now
};

}  // namespace hadal
