#include "tensor/byte_vector.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tensor/half.h"

namespace hadal {
namespace {

// The code whose value is nearest, of two the one with an even mantissa: by search over all codes.
uint8_t NearestF8(float x) {
  uint8_t best = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (uint32_t code = 0; code < 0x7F; ++code) {
    const double d = std::abs(double{std::abs(x)} - F8E4M3ToF32(static_cast<uint8_t>(code)));
    if (d < distance || (d == distance && code % 2 == 0)) {
      best = static_cast<uint8_t>(code);
      distance = d;
    }
  }
  return best | (std::signbit(x) ? 0x80 : 0);
}

TEST(F8E4M3, RoundsToTheNearestCode) {
  for (uint32_t code = 0; code < 0x100; ++code) {
    if ((code & 0x7F) == 0x7F) continue;
    const float value = F8E4M3ToF32(static_cast<uint8_t>(code));
    EXPECT_EQ(F32ToF8E4M3(value), code);
    // Halfway to the next code, and just beside.
    if ((code & 0x7F) == 0x7E) continue;
    const float half = (value + F8E4M3ToF32(static_cast<uint8_t>(code + 1))) / 2;
    for (const float x : {std::nextafter(half, 0.0f), half, std::nextafter(half, 1e9f)}) {
      EXPECT_EQ(F32ToF8E4M3(x), NearestF8(x)) << x;
    }
  }
  std::mt19937 generator(1);
  for (int i = 0; i < 20000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(generator()));
    if (std::isfinite(x)) EXPECT_EQ(F32ToF8E4M3(x), NearestF8(x)) << x;
  }
  EXPECT_EQ(F32ToF8E4M3(1e30f), 0x7E);
  EXPECT_EQ(F32ToF8E4M3(-INFINITY), 0xFE);
  EXPECT_EQ(F32ToF8E4M3(NAN) & 0x7F, 0x7F);
}

class ByteVector : public testing::TestWithParam<DType> {
 protected:
  // What the cache gives back.
  std::vector<double> RoundTrip(const std::vector<float>& x) {
    std::vector<uint8_t> codes(x.size(), 0xAA);
    const float scale = EncodeByteVector(x, GetParam(), codes.data());
    std::vector<double> out;
    for (const uint8_t code : codes) out.push_back(double{DecodeByte(code, GetParam())} * scale);
    return out;
  }
};

TEST_P(ByteVector, ErrorsStayWithinHalfAStep) {
  std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  for (const float size : {1e-20f, 1.0f, 3e4f, 1e37f}) {
    std::vector<float> x(200);
    float max = 0;
    for (float& value : x) {
      value = size * normal(generator);
      max = std::max(max, std::abs(value));
    }
    const std::vector<double> back = RoundTrip(x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double magnitude = std::abs(x[i]);
      // Half of max / 127; or half a unit in the fourth bit, and what lies below 2^-6 of 448.
      const double bound = GetParam() == DType::kI8
                               ? max / 254.0
                               : std::max(magnitude / 16, double{max} / 448 * 0x1p-6);
      EXPECT_LE(std::abs(back[i] - x[i]), bound * 1.0001) << x[i] << " of " << max;
    }
  }
}

TEST_P(ByteVector, TheLargestAndZeroAreKept) {
  const std::vector<double> back = RoundTrip({0.0f, -3.5f, 3.5f, 1e-9f});
  EXPECT_EQ(back[0], 0);
  EXPECT_NEAR(back[1], -3.5, 1e-6);
  EXPECT_NEAR(back[2], 3.5, 1e-6);
  EXPECT_EQ(back[3], 0);
  EXPECT_EQ(RoundTrip({0.0f, 0.0f}), (std::vector<double>{0, 0}));
  EXPECT_EQ(RoundTrip({1e-31f, -1e-38f}), (std::vector<double>{0, 0}));
}

TEST_P(ByteVector, NonFiniteValuesPoisonTheirVector) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (const double x : RoundTrip({1.0f, bad, 2.0f})) EXPECT_TRUE(std::isnan(x));
  }
}

TEST(F8E4M3, VectorsHaveNoSubnormalCodes) {
  std::vector<float> x = {448.0f};
  for (int i = 1; i < 200; ++i) x.push_back(0x1p-6f * static_cast<float>(i) / 100);
  std::vector<uint8_t> codes(x.size());
  EXPECT_EQ(EncodeByteVector(x, DType::kF8E4M3, codes.data()), 1.0f);
  for (size_t i = 0; i < x.size(); ++i) {
    const uint8_t nearest = NearestF8(x[i]);
    EXPECT_EQ(codes[i], nearest < 8 ? 0 : nearest) << x[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ByteVector, testing::Values(DType::kI8, DType::kF8E4M3),
                         [](const auto& type) { return std::string(Name(type.param)); });

}  // namespace
}  // namespace hadal
