// Sequences with random contents, driven through RopeAndStore and attention in any plan of steps,
// and the plain f64 answer.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/cpu_features.h"

namespace hadal {

struct AttentionCase {
  uint32_t heads = 1, kv_heads = 1, head_dim = 16;
  // MLA when kv_lora is not 0: then head_dim and kv_heads play no part.
  uint32_t kv_lora = 0, nope = 0, rope = 0, v_head_dim = 0;
  uint32_t window = 0;
  uint32_t block_size = 16;
  DType dtype = DType::kF32;

  bool mla() const { return kv_lora != 0; }
  uint32_t q_dim() const { return mla() ? nope + rope : head_dim; }
  uint32_t k_dim() const { return mla() ? kv_lora + rope : head_dim; }
  uint32_t out_dim() const { return mla() ? v_head_dim : head_dim; }
};

// The contents follow from the seed: [tokens][heads * dim] each.
struct TestSequence {
  TestSequence(const AttentionCase& shape, uint32_t tokens, uint32_t seed);
  uint32_t tokens;
  std::vector<float> q, k, v;
};

// A step: (sequence, rows) in the order they are packed.
using StepPlan = std::vector<std::pair<uint32_t, uint32_t>>;
// All of one sequence, `chunk` rows at a time.
std::vector<StepPlan> Chunked(uint32_t tokens, uint32_t chunk);

struct AttentionRun {
  std::vector<std::vector<float>> out;  // per sequence [tokens][heads * out_dim]
  uint64_t tiles = 0;
  uint64_t jobs = 0;
};

struct RunOptions {
  IsaLevel level = IsaLevel::kPortable;
  int threads = 1;
  uint32_t page_seed = 1;  // where pages lie, and what stale values they held
};

AttentionRun RunCpuAttention(const AttentionCase& shape, const std::vector<TestSequence>& sequences,
                             const std::vector<StepPlan>& plan, const RunOptions& options);

// The same by definition, in f64 over K and V as the cache rounds them.
std::vector<float> PlainAttention(const AttentionCase& shape, const TestSequence& sequence);

// |a - b| / |b|
double RelativeError(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace hadal
