#include "sampling/random.h"

#include <gtest/gtest.h>

namespace hadal {
namespace {

using Words = std::array<uint32_t, 4>;

// Known answers published with the algorithm (Random123, kat_vectors).
TEST(Random, PhiloxGivesThePublishedAnswers) {
  constexpr uint32_t kOnes = 0xFFFFFFFF;
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, EveryPartOfTheKeyMatters) {
  const RandomKey key{.seed = 7, .prompt_index = 1, .choice_index = 2, .position = 3};
  const double base = Uniform(key);
  EXPECT_EQ(base, Uniform(key));
  for (RandomKey other : {RandomKey{8, 1, 2, 3}, RandomKey{7, 2, 2, 3}, RandomKey{7, 1, 3, 3},
                          RandomKey{7, 1, 2, 4}, RandomKey{7 + (uint64_t{1} << 32), 1, 2, 3}}) {
    EXPECT_NE(base, Uniform(other));
  }
}

TEST(Random, IsUniform) {
  constexpr int kDraws = 100000, kBins = 50;
  std::array<int, kBins> bins{};
  double sum = 0;
  for (uint32_t i = 0; i < kDraws; ++i) {
    const double u = Uniform({.seed = 42, .position = i});
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    ++bins[static_cast<size_t>(u * kBins)];
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 4 * 0.2887 / 316);
  double chi2 = 0;
  for (const int n : bins) chi2 += (n - 2000.0) * (n - 2000.0) / 2000.0;
  EXPECT_LT(chi2, 90);  // 49 degrees of freedom: 1 in 3000
}

}  // namespace
}  // namespace hadal
