#include "quant/quantize.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "quant/testing.h"

namespace hadal {
namespace {

using quant_testing::Case;
using quant_testing::Dequantized;
using quant_testing::GoldenCases;
using quant_testing::MakeView;
using quant_testing::RandomFloats;

std::vector<std::byte> Quantized(DType type, uint64_t rows, std::span<const float> values) {
  const uint64_t cols = values.size() / rows;
  std::vector<std::byte> out(rows * RowBytes(type, cols));
  for (uint64_t r = 0; r < rows; ++r) {
    QuantizeRow(type, values.subspan(r * cols, cols),
                std::span(out).subspan(r * RowBytes(type, cols), RowBytes(type, cols)));
  }
  return out;
}

TEST(QuantizeRow, GoldenBytes) {
  int seen = 0;
  for (const Case& golden : GoldenCases()) {
    if (golden.kind != "quantize") continue;
    ++seen;
    const std::vector<std::byte> out =
        Quantized(golden.view.dtype, golden.view.rows(), golden.values);
    ASSERT_EQ(out.size(), golden.view.data.size());
    const auto [a, b] = std::mismatch(out.begin(), out.end(), golden.view.data.begin());
    EXPECT_TRUE(a == out.end()) << golden.view.name << " differs at byte " << a - out.begin();
  }
  EXPECT_EQ(seen, 10);
}

// What each type can hold of normally distributed values: the relative RMS error must be near what
// its bits allow, which a wrong shift or offset never is.
TEST(QuantizeRow, ErrorIsThatOfTheBits) {
  struct Bound {
    DType type;
    double error;
  };
  for (const Bound bound :
       {Bound{DType::kF32, 0}, Bound{DType::kF16, 4e-4}, Bound{DType::kBF16, 3e-3},
        Bound{DType::kQ8_0, 0.007}, Bound{DType::kQ4_0, 0.1}, Bound{DType::kQ4_1, 0.09},
        Bound{DType::kQ5_0, 0.05}, Bound{DType::kQ5_1, 0.045}, Bound{DType::kQ2_K, 0.4},
        Bound{DType::kQ3_K, 0.2}, Bound{DType::kQ4_K, 0.09}, Bound{DType::kQ5_K, 0.045},
        Bound{DType::kQ6_K, 0.025}, Bound{DType::kIQ4_NL, 0.11}, Bound{DType::kIQ4_XS, 0.11},
        Bound{DType::kMXFP4, 0.13}}) {
    const std::vector<float> x = RandomFloats(8 * 1024, 1);
    const std::vector<std::byte> data = Quantized(bound.type, 8, x);
    const std::vector<float> y = Dequantized(MakeView(bound.type, 8, 1024, data));
    double error = 0;
    double norm = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      error += (x[i] - y[i]) * (x[i] - y[i]);
      norm += x[i] * x[i];
    }
    EXPECT_LE(std::sqrt(error / norm), bound.error) << Name(bound.type);
    EXPECT_GE(std::sqrt(error / norm), bound.error / 4) << Name(bound.type);
  }
}

TEST(QuantizeRow, ZerosAndTinyValuesStayFinite) {
  for (int t = 0; t <= static_cast<int>(DType::kGptq4); ++t) {
    const auto type = static_cast<DType>(t);
    if (!CanQuantizeTo(type)) continue;
    for (const float value : {0.0f, 1e-40f, -1e-45f, 1e-7f, 65504.0f, -65504.0f}) {
      std::vector<float> x(256, value);
      x[7] = 0;
      const std::vector<std::byte> data = Quantized(type, 1, x);
      const TensorView view = MakeView(type, 1, 256, data);
      EXPECT_FALSE(FindNonFinite(view, 0, 1).has_value()) << Name(type) << " " << value;
      if (value == 0.0f) {
        for (const float y : Dequantized(view)) EXPECT_EQ(y, 0.0f) << Name(type);
      }
    }
  }
}

TEST(QuantizeRow, RefusesWhatItCannotHold) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 1e30f}) {
    std::vector<float> x(256, 1.0f);
    x[40] = bad;
    try {
      Quantized(DType::kQ4_K, 1, x);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kNumeric);
      EXPECT_NE(error.message().find("column 40"), std::string::npos) << error.message();
    }
  }
}

}  // namespace
}  // namespace hadal
