// What everything costs, before any of it is allocated: the one sum of all bytes that `plan`,
// `serve` and every other command share. Pure arithmetic over a model's spec and tensor list.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "memory/memory_bytes.h"
#include "spec/kv_layout.h"

namespace hadal {

// What has to be known of a model and its device. Weights and activations come from the model's own
// exact functions, the workspace from the backend's.
struct MemoryModel {
  const ModelSpec* spec = nullptr;
  const Backend* backend = nullptr;
  std::function<uint64_t(WeightPolicy)> weight_bytes;           // PlanWeightBytes
  std::function<uint64_t(const StepLimits&)> activation_bytes;  // logits included
  uint64_t tokenizer_bytes = 0;
  uint32_t n_threads = 1;  // of the whole process
};

// What an operator may choose.
struct MemoryChoice {
  WeightPolicy weights = WeightPolicy::kAsStored;
  DType kv_dtype = DType::kBF16;
  uint32_t block_size = 16;
  StepLimits limits;  // max_context: tokens of one sequence
  uint64_t swap_bytes = 0;
};

// Exactly the bytes AllocateKvCache takes for pages[g] pages in group g.
uint64_t KvBytes(const KvLayout& layout, std::span<const uint32_t> pages);

// The sum. Exact, but for the overhead (below).
MemoryBytes PlanMemory(const MemoryModel& model, const MemoryChoice& choice, const KvLayout& layout,
                       std::span<const uint32_t> pages);

// Sequences that choose their next token at the same time at most, each with a sampler's memory.
uint32_t ConcurrentSamplers(const Backend& backend, const StepLimits& limits);

// What is neither the model's nor the cache's own: code and libraries, threads, the allocator, the
// arrays of a step, sampling, and the bookkeeping of pages, prefixes and running sequences. Bounds
// on what is counted; the rest is measured (docs/memory.md). Texts of requests are not in it.
uint64_t OverheadBytes(const MemoryModel& model, const MemoryChoice& choice, const KvLayout& layout,
                       std::span<const uint32_t> pages);

// Pages of each group when the blocks of `n_sequences` texts are dealt out one after the other,
// `units` blocks in all, and at least those of one text of `context` tokens. A windowed group gets
// what its window sees of each text, which steps of up to `max_chunk` tokens add to. Grows with
// `units`.
std::vector<uint32_t> DealPages(const KvLayout& layout, uint32_t n_sequences, uint32_t max_chunk,
                                uint64_t context, uint64_t units);

}  // namespace hadal
