// From the options of a command to the memory plan: what `plan` prints is what `serve` allocates.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "config/options.h"
#include "formats/checkpoint.h"
#include "memory/memory_fit.h"
#include "sched/limits.h"

namespace hadal::cli {

// --dtype and --weights. Throws Error(kUsage) when they contradict each other.
WeightPolicy ChoosePolicy(const OptionValues& options);

// What a command wants beyond its options; see SessionNeeds.
struct MemoryNeeds {
  uint32_t max_sequences = 1;
  uint32_t max_logit_rows = 0;   // 0: one per sequence
  uint64_t context = 0;          // unless --ctx is given; 0: as many as fit
  bool shared_pool = false;      // as in MemoryWish: sequences share what is left
  uint64_t tokenizer_bytes = 0;  // Tokenizer::bytes
};

// --speculate and --draft-max, for a command that has them.
struct SpeculationOptions {
  Speculation speculation = Speculation::kOff;
  uint32_t max_draft = 0;
};
SpeculationOptions ChooseSpeculation(const OptionValues& options);

// Of `serve` and `plan`: --max-num-seqs sequences that share one pool.
MemoryNeeds ServingNeeds(const OptionValues& options, uint64_t tokenizer_bytes);

// `checkpoint` and `backend` must outlive the result.
MemoryModel ModelOf(const Checkpoint& checkpoint, const Backend& backend,
                    const OptionValues& options, const MemoryNeeds& needs);

MemoryWish WishOf(const ModelSpec& spec, const OptionValues& options, const MemoryNeeds& needs);

// --memory, all the process may take, or --memory-utilization of what is left; for a command
// without these options, 95 % of it. With `hypothetical`, --memory may be more than there is.
// Throws Error(kResource) when it is not and --memory is, Error(kUsage) when both are given.
MemoryBudget BudgetOf(const OptionValues& options, bool hypothetical = false);

}  // namespace hadal::cli
