#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/kernels.h"

namespace hadal {
namespace {

class ElementwiseTest : public testing::TestWithParam<IsaLevel> {
 protected:
  const ElementwiseKernels& kernels() const { return GetKernels(GetParam()).elementwise; }
};

std::vector<float> Random(size_t n, uint32_t seed, float scale = 1.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(n);
  for (float& value : values) value = normal(generator);
  return values;
}

TEST_P(ElementwiseTest, ExpIsWithinTwoUnitsOverTheFullRange) {
  std::vector<float> x;
  for (double value = -87.33; value <= 88.37; value += 0.00037) {
    x.push_back(static_cast<float>(value));
  }
  for (float tiny = 1e-30f; tiny < 1.0f; tiny *= 1.7f) {
    x.push_back(tiny);
    x.push_back(-tiny);
  }
  std::vector<float> got(x.size());
  kernels().exp(x.data(), static_cast<uint32_t>(x.size()), got.data());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp(static_cast<double>(x[i]));
    const float rounded = static_cast<float>(want);
    const double unit = static_cast<double>(std::nextafter(rounded, HUGE_VALF)) - rounded;
    worst = std::max(worst, std::abs(got[i] - want) / unit);
  }
  EXPECT_LT(worst, 2.0);
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST_P(ElementwiseTest, ExpAtTheEdges) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float x[] = {0.0f, -0.0f, -87.4f, -1000.0f, -infinity, infinity, 1000.0f, NAN, 1.0f};
  float got[9];
  kernels().exp(x, 9, got);
  EXPECT_EQ(got[0], 1.0f);
  EXPECT_EQ(got[1], 1.0f);
  for (int i = 2; i < 5; ++i) EXPECT_EQ(std::bit_cast<uint32_t>(got[i]), 0u) << x[i];
  EXPECT_GT(got[5], 2.3e38f);
  EXPECT_GT(got[6], 2.3e38f);
  EXPECT_TRUE(std::isnan(got[7]));
  EXPECT_NEAR(got[8], 2.7182818f, 3e-7);
}

TEST_P(ElementwiseTest, RmsNorm) {
  for (const uint32_t n : {1u, 5u, 16u, 64u, 100u, 129u, 1536u}) {
    const std::vector<float> x0 = Random(n, n), add = Random(n, n + 1), weight = Random(n, n + 2);
    for (const bool with_add : {false, true}) {
      std::vector<float> x = x0, out(n + 1, 7.0f);
      kernels().rms_norm(
          {x.data(), with_add ? add.data() : nullptr, weight.data(), 1e-6f, n, out.data()});
      double squares = 0;
      for (uint32_t i = 0; i < n; ++i) {
        EXPECT_EQ(x[i], with_add ? x0[i] + add[i] : x0[i]);
        squares += static_cast<double>(x[i]) * x[i];
      }
      const double scale = 1 / std::sqrt(squares / n + 1e-6);
      for (uint32_t i = 0; i < n; ++i) {
        const double want = x[i] * scale * weight[i];
        EXPECT_NEAR(out[i], want, 1e-6 * std::abs(want) + 1e-9);
      }
      EXPECT_EQ(out[n], 7.0f);
      std::vector<float> in_place = x0;
      kernels().rms_norm({in_place.data(), with_add ? add.data() : nullptr, weight.data(), 1e-6f, n,
                          in_place.data()});
      out.pop_back();
      EXPECT_EQ(in_place, out);
    }
  }
}

TEST_P(ElementwiseTest, Glu) {
  for (const uint32_t n : {1u, 16u, 37u, 200u}) {
    std::vector<float> gate = Random(n, n, 4.0f), up = Random(n, n + 1), out(n + 1, 7.0f);
    gate[0] = -120.0f;
    kernels().glu(gate.data(), up.data(), n, out.data());
    for (uint32_t i = 0; i < n; ++i) {
      const double want = gate[i] / (1 + std::exp(-static_cast<double>(gate[i]))) * up[i];
      EXPECT_NEAR(out[i], want, 1e-6 * std::abs(want) + 1e-30);
    }
    EXPECT_EQ(out[n], 7.0f);
  }
}

TEST_P(ElementwiseTest, AddScaled) {
  for (const uint32_t n : {1u, 16u, 37u}) {
    const std::vector<float> x0 = Random(n, n), y = Random(n, n + 1);
    for (const float gate : {-30.0f, -1.0f, 0.0f, 2.5f}) {
      std::vector<float> x = x0;
      kernels().add_scaled(y.data(), &gate, n, x.data());
      const double factor = 1 / (1 + std::exp(-static_cast<double>(gate)));
      for (uint32_t i = 0; i < n; ++i) EXPECT_NEAR(x[i], x0[i] + factor * y[i], 5e-7);
    }
    std::vector<float> x = x0;
    kernels().add_scaled(y.data(), nullptr, n, x.data());
    for (uint32_t i = 0; i < n; ++i) EXPECT_EQ(x[i], x0[i] + y[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, ElementwiseTest, testing::ValuesIn(SupportedIsaLevels()),
                         [](const auto& level) { return std::string(Name(level.param)); });

}  // namespace
}  // namespace hadal
