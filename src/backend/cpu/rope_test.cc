#include "backend/cpu/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

#include "base/json.h"
#include "tensor/half.h"

namespace hadal {
namespace {

class RopeTest : public testing::TestWithParam<IsaLevel> {};

TEST_P(RopeTest, RotatesAsTheFixturesSay) {
  std::ifstream file(std::string(HADAL_SOURCE_DIR) + "/tests/data/rope/rotate.json");
  std::stringstream text;
  text << file.rdbuf();
  const Json cases = ParseJson(text.str(), "rotate.json");
  ASSERT_GE(cases.size(), 4u);
  const RopeKernels& kernels = GetKernels(GetParam()).rope;
  for (const Json& item : cases) {
    const uint32_t dim = item["dim"];
    std::vector<float> cos, sin;
    for (uint32_t i = 0; i < dim / 2; ++i) {
      const double angle =
          item["pos"].get<double>() * std::pow(item["base"].get<double>(), -2.0 * i / dim);
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
    for (const bool interleaved : {false, true}) {
      // Two heads with a stranger between them.
      const auto x = item["x"].get<std::vector<float>>();
      std::vector<float> heads(2 * (dim + 1), 9.0f);
      std::copy(x.begin(), x.end(), heads.begin());
      std::copy(x.begin(), x.end(), heads.begin() + dim + 1);
      const RotateArgs args = {heads.data(), 2, dim + 1, dim / 2, cos.data(), sin.data()};
      (interleaved ? kernels.rotate_interleaved : kernels.rotate_half_split)(args);
      const auto want = item[interleaved ? "interleaved" : "half_split"].get<std::vector<double>>();
      for (uint32_t i = 0; i < dim; ++i) {
        EXPECT_NEAR(heads[i], want[i], 2e-6) << dim << " at " << i;
        EXPECT_EQ(heads[dim + 1 + i], heads[i]);
      }
      EXPECT_EQ(heads[dim], 9.0f);
      EXPECT_EQ(heads.back(), 9.0f);
    }
  }
}

ModelSpec TwoLayers(uint32_t kv_heads, uint32_t dim) {
  ModelSpec spec;
  spec.n_layers = 2;
  spec.layers.resize(2);
  spec.attention.n_heads = kv_heads;
  spec.attention.n_kv_heads = kv_heads;
  spec.attention.head_dim = dim;
  return spec;
}

// Partial rotary at an offset; then every element is where kv_layout.h says.
TEST_P(RopeTest, StoresRotatedKeysAndPlainValues) {
  const auto allocator = MakeRefBackend();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const uint32_t dim : {6u, 7u, 16u, 40u}) {
      const uint32_t kv_heads = 2, rows = 35, block = 32, rope_dim = 4, offset = 2;
      KvCache kv;
      kv.layout = MakeKvLayout(TwoLayers(kv_heads, dim), dtype, block);
      kv.arenas.push_back(allocator->Allocate(4 * kv.layout.groups[0].page_bytes));
      std::mt19937 generator(dim);
      std::normal_distribution<float> normal;
      const auto random = [&](size_t n) {
        std::vector<float> values(n);
        for (float& x : values) x = normal(generator);
        return values;
      };
      std::vector<float> q = random(rows * 3 * dim), k = random(rows * kv_heads * dim),
                         v = random(rows * kv_heads * dim), cos = random(rows * rope_dim / 2),
                         sin = random(rows * rope_dim / 2);
      const std::vector<float> q0 = q, k0 = k;
      std::vector<int32_t> tokens(rows);
      std::vector<uint32_t> slots;
      for (uint32_t i = 0; i < rows; ++i) slots.push_back((i + 3) * 37 % (4 * block));
      const StepInput::KvPages group = {slots, {}, {}};
      StepInput step;
      step.tokens = tokens;
      step.groups = {&group, 1};
      RopeStoreArgs args;
      args.q = Tensor(q.data(), rows, 3 * dim);
      args.k = Tensor(k.data(), rows, kv_heads * dim);
      args.v = Tensor(v.data(), rows, kv_heads * dim);
      args.q_heads = 3;
      args.q_head_dim = args.k_head_dim = args.v_head_dim = dim;
      args.q_rope_offset = args.k_rope_offset = offset;
      args.kv_heads = kv_heads;
      args.rope_dim = rope_dim;
      args.rope_layout = RopeLayout::kInterleaved;
      args.cos = Tensor(cos.data(), rows, rope_dim / 2);
      args.sin = Tensor(sin.data(), rows, rope_dim / 2);
      args.layer = 1;
      ThreadPool pool(2);
      CpuRopeAndStore(pool, GetKernels(GetParam()), step, kv, args);

      const auto rotated = [&](const std::vector<float>& x, uint32_t row, uint32_t at,
                               uint32_t d) -> double {
        if (d < offset || d >= offset + rope_dim) return x[at + d];
        const uint32_t pair = (d - offset) / 2;
        const double a = x[at + offset + 2 * pair], b = x[at + offset + 2 * pair + 1];
        const double c = cos[row * 2 + pair], s = sin[row * 2 + pair];
        return (d - offset) % 2 == 0 ? a * c - b * s : b * c + a * s;
      };
      const auto* arena = static_cast<const char*>(kv.arenas[0].data());
      const auto element = [&](uint64_t tile, uint64_t index) {
        if (dtype == DType::kF32) return reinterpret_cast<const float*>(arena + tile)[index];
        return Bf16ToF32(reinterpret_cast<const uint16_t*>(arena + tile)[index]);
      };
      const auto stored = [&](double x) {
        return dtype == DType::kF32 ? static_cast<float>(x)
                                    : Bf16ToF32(F32ToBf16(static_cast<float>(x)));
      };
      const double near = dtype == DType::kF32 ? 2e-6 : 1.6e-2;  // a tie may round either way
      for (uint32_t row = 0; row < rows; ++row) {
        const uint32_t page = slots[row] / block, tile = slots[row] % block / 16;
        const uint32_t t = slots[row] % 16;
        for (uint32_t d = 0; d < 3 * dim; ++d) {
          const uint32_t at = row * 3 * dim + d / dim * dim;
          EXPECT_NEAR(q[row * 3 * dim + d], rotated(q0, row, at, d % dim), 2e-6);
        }
        for (uint32_t head = 0; head < kv_heads; ++head) {
          const uint64_t k_tile = kv.layout.KTileOffset(1, page, head, tile);
          const uint64_t v_tile = kv.layout.VTileOffset(1, page, head, tile);
          const uint32_t at = (row * kv_heads + head) * dim;
          for (uint32_t d = 0; d < dim; ++d) {
            const bool f32 = dtype == DType::kF32;
            const double want = rotated(k0, row, at, d);
            EXPECT_NEAR(element(k_tile, f32 ? d * 16 + t : (d / 2 * 16 + t) * 2 + d % 2),
                        stored(want), near * std::max(1.0, std::abs(want)));
            EXPECT_EQ(element(v_tile, f32 ? t * dim + d : (t / 2 * dim + d) * 2 + t % 2),
                      stored(v[at + d]));
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, RopeTest, testing::ValuesIn(SupportedIsaLevels()),
                         [](const auto& level) { return std::string(Name(level.param)); });

}  // namespace
}  // namespace hadal
