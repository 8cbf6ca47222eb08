// The 8-bit tiles that kernels write, against tensor/byte_vector.h: every byte, at every level.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/kernels.h"
#include "tensor/byte_vector.h"

namespace hadal {
namespace {

class StoreBytes : public testing::TestWithParam<IsaLevel> {};

std::vector<std::vector<float>> Vectors(uint32_t dim) {
  std::mt19937 generator(dim);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> vectors;
  for (const float size : {1.0f, 1e-28f, 1e-31f, 0.0f, 7e36f}) {
    std::vector<float> x(dim);
    for (float& value : x) value = size * normal(generator);
    vectors.push_back(x);
  }
  // From 448 down through what e4m3 rounds to zero, ties included.
  std::vector<float> falling(dim, -448.0f);
  for (uint32_t i = 1; i < dim; ++i) falling[i] = falling[i - 1] * (i % 2 == 0 ? -0.5f : 0.6875f);
  vectors.push_back(falling);
  std::vector<float> halves(dim, 127.0f);
  for (uint32_t i = 1; i < dim; ++i) halves[i] = static_cast<float>(i % 50) - 20.5f;
  vectors.push_back(halves);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    vectors.push_back(vectors[0]);
    vectors.back()[dim / 2] = bad;
  }
  return vectors;
}

TEST_P(StoreBytes, EqualTheDefinition) {
  constexpr uint8_t kUntouched = 0x55;
  for (const DType type : {DType::kI8, DType::kF8E4M3}) {
    const AttentionTileKernels& kernels = TileKernels(GetKernels(GetParam()).attention, type);
    for (const uint32_t dim : {1u, 3u, 16u, 17u, 64u, 131u}) {
      const uint32_t padded = (dim + 3) / 4 * 4;
      for (const std::vector<float>& x : Vectors(dim)) {
        for (const uint32_t token : {0u, 6u, 15u}) {
          std::vector<uint8_t> codes(dim);
          const float scale = EncodeByteVector(x, type, codes.data());
          for (const bool key : {true, false}) {
            std::vector<uint8_t> want((key ? padded : dim) * 16, kUntouched);
            for (uint32_t d = 0; d < dim; ++d) {
              want[key ? (d / 4 * 16 + token) * 4 + d % 4 : (token / 4 * dim + d) * 4 + token % 4] =
                  codes[d];
            }
            std::vector<uint8_t> got(want.size(), kUntouched);
            std::vector<float> scales(16, 5.0f);
            StoreTokenArgs args;
            args.x = x.data();
            args.dim = dim;
            args.token = token;
            args.tile = reinterpret_cast<std::byte*>(got.data());
            args.scales = scales.data();
            (key ? kernels.store_k : kernels.store_v)(args);
            ASSERT_EQ(got, want) << Name(type) << " dim " << dim << " of " << x[0];
            for (uint32_t t = 0; t < 16; ++t) {
              const float expected = t == token ? scale : 5.0f;
              ASSERT_TRUE(scales[t] == expected || (std::isnan(scales[t]) && std::isnan(expected)))
                  << Name(type) << " dim " << dim << ": " << scales[t] << " for " << expected;
            }
          }
        }
      }
    }
  }
}

TEST_P(StoreBytes, TransposedKeysAreValues) {
  for (const uint32_t dim : {1u, 6u, 64u, 83u}) {
    std::vector<uint8_t> keys((dim + 3) / 4 * 4 * 16);
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<uint8_t>(i * 37 + i / 256);
    std::vector<uint8_t> values(dim * 16);
    GetKernels(GetParam())
        .attention.int8.transpose_tile(reinterpret_cast<const std::byte*>(keys.data()), dim,
                                       reinterpret_cast<std::byte*>(values.data()));
    for (uint32_t t = 0; t < 16; ++t) {
      for (uint32_t d = 0; d < dim; ++d) {
        ASSERT_EQ(values[(t / 4 * dim + d) * 4 + t % 4], keys[(d / 4 * 16 + t) * 4 + d % 4]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, StoreBytes, testing::ValuesIn(SupportedIsaLevels()),
                         [](const auto& level) { return std::string(Name(level.param)); });

}  // namespace
}  // namespace hadal
