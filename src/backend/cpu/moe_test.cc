#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "quant/testing.h"

namespace hadal {
namespace {

using quant_testing::MakeView;
using quant_testing::RandomFloats;

// 256 rows of 32 KiB, as F32 weights want them, are all that working space has room for: the pairs
// of a step come to more, and experts take turns.
TEST(CpuMoe, ExpertsTakeTurnsWhereTheirRowsDoNotFit) {
  constexpr uint32_t kTokens = 64;
  constexpr uint32_t kHidden = 8192;
  constexpr uint32_t kWidth = 16;
  constexpr uint32_t kExperts = 8;
  constexpr uint32_t kUsed = 6;
  ModelSpec spec;
  spec.hidden = kHidden;
  spec.intermediate = kWidth;
  spec.attention.n_heads = spec.attention.n_kv_heads = 1;
  spec.attention.head_dim = 16;
  spec.moe.emplace();
  spec.moe->n_experts = kExperts;
  spec.moe->n_used = kUsed;
  spec.moe->intermediate = kWidth;
  StepLimits limits;
  limits.max_tokens = kTokens;
  const auto backend = MakeCpuBackend(2, ChooseIsaLevel());
  backend->Reserve(spec, limits);

  std::vector<ExpertWeights> experts(kExperts);
  uint32_t seed = 0;
  const auto upload = [&](uint32_t rows, uint32_t cols) {
    const std::vector<float> values = RandomFloats(size_t{rows} * cols, ++seed);
    return backend->Upload(MakeView(DType::kF32, rows, cols, std::as_bytes(std::span(values))),
                           WeightPolicy::kAsStored);
  };
  for (ExpertWeights& expert : experts) {
    expert.gate = upload(kWidth, kHidden);
    expert.up = upload(kWidth, kHidden);
    expert.down = upload(kHidden, kWidth);
  }
  std::vector<float> x = RandomFloats(size_t{kTokens} * kHidden, ++seed);
  std::vector<float> weights = RandomFloats(size_t{kTokens} * kUsed, ++seed);
  std::vector<int32_t> chosen;
  for (uint32_t i = 0; i < kTokens; ++i) {
    for (uint32_t j = 0; j < kUsed; ++j) chosen.push_back(static_cast<int32_t>((i + j) % kExperts));
  }
  const auto run = [&](uint32_t tokens_at_once) {
    std::vector<float> out(x.size());
    for (uint32_t i = 0; i < kTokens; i += tokens_at_once) {
      const size_t at = size_t{i} * kHidden;
      backend->MoeFfn(Tensor(x.data() + at, tokens_at_once, kHidden), experts,
                      {chosen.data() + i * kUsed, weights.data() + i * kUsed, kUsed},
                      Tensor(out.data() + at, tokens_at_once, kHidden));
    }
    return out;
  };
  EXPECT_TRUE(run(kTokens) == run(1));
}

}  // namespace
}  // namespace hadal
