// Whether a model fits into the memory there is, how long texts may then be, how much KV there will
// be for them; and, when it does not fit, the nearest that does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memory/available_memory.h"
#include "memory/memory_plan.h"

namespace hadal {

struct MemoryBudget {
  uint64_t bytes = 0;
  std::string whence;  // for messages: "90 % of the 20.0 GiB that the machine has left"
};

// `utilization` of what is left, in (0, 1]; what this process has taken already counts as left.
MemoryBudget BudgetOf(const AvailableMemory& available, double utilization);

// Which options a refusal may name. Empty: the command does not have it.
struct MemoryOptionNames {
  std::string_view context = "--ctx";
  std::string_view sequences = {};
  std::string_view chunk = "--chunk";
};

struct MemoryWish {
  MemoryChoice choice;              // limits.max_context is what is to be found
  std::optional<uint64_t> context;  // asked for; absent: as much as fits, up to default_context
  uint64_t model_context = 0;       // the model's own limit; 0: it states none
  uint64_t default_context = 0;     // 0: the model's own, or 8192 where it states none
  // Every sequence has a whole context of its own; otherwise they share what is left, and at least
  // one must have a whole one.
  bool all_at_once = true;
  std::optional<uint64_t> kv_bytes;  // the pool's size, whatever is left beside it
  MemoryOptionNames names;
};

struct FittedMemory {
  MemoryChoice choice;  // with limits.max_context
  KvLayout layout;
  std::vector<uint32_t> pages;  // per group
  MemoryBytes bytes;
  uint64_t wanted_context = 0;  // larger than limits.max_context when that was cut to what fits

  // Texts of `tokens` tokens that fit into the pool at once, however many sequences may run.
  uint64_t Sequences(uint64_t tokens) const;
};

// Throws Error(kResource), with all the numbers and the nearest configurations that fit, when the
// wish is beyond the budget; Error(kUsage) when the context asked for is 0 or beyond what the model
// supports.
FittedMemory FitMemory(const MemoryModel& model, const MemoryWish& wish,
                       const MemoryBudget& budget);

// The same without an exception; empty: it does not fit.
std::optional<FittedMemory> TryFitMemory(const MemoryModel& model, const MemoryWish& wish,
                                         const MemoryBudget& budget);

// What the wish takes at the least, whether or not there is so much: of the context asked for, or a
// single token.
FittedMemory LeastMemory(const MemoryModel& model, const MemoryWish& wish);

// What a refusal offers: "--max-model-len 6144, or --kv-dtype int8, or --max-num-seqs 8"; empty
// when nothing within these options fits.
std::string NearestFits(const MemoryModel& model, const MemoryWish& wish,
                        const MemoryBudget& budget);

}  // namespace hadal
