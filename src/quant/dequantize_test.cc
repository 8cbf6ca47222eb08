#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <set>

#include "base/error.h"
#include "quant/blocks.h"
#include "quant/blocks_internal.h"
#include "quant/int4.h"
#include "quant/testing.h"

namespace hadal {
namespace {

using quant_testing::Case;
using quant_testing::Dequantized;
using quant_testing::FirstBitDifference;
using quant_testing::GoldenCases;
using quant_testing::MakeView;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Dequantize, AllGoldenCasesBitForBit) {
  std::set<DType> seen;
  for (const Case& golden : GoldenCases()) {
    if (golden.kind != "dequantize") continue;
    seen.insert(golden.view.dtype);
    const std::vector<float> out = Dequantized(golden.view);
    const int64_t at = FirstBitDifference(out, golden.values);
    EXPECT_EQ(at, -1) << golden.view.name << ": " << out[static_cast<size_t>(at)] << " instead of "
                      << golden.values[static_cast<size_t>(at)];
  }
  EXPECT_EQ(seen.size(), 18u);  // 13 block types, f16, bf16, fp8, awq, gptq
}

TEST(Dequantize, RowsInTheMiddle) {
  for (const Case& golden : GoldenCases()) {
    if (golden.kind != "dequantize" || golden.view.rows() < 3) continue;
    const size_t cols = golden.view.cols();
    std::vector<float> out(2 * cols);
    DequantizeRows(golden.view, 1, 2, out);
    EXPECT_EQ(FirstBitDifference(out, std::span(golden.values).subspan(cols, 2 * cols)), -1)
        << golden.view.name;
  }
}

TEST(Dequantize, UnalignedData) {
  for (const Case& golden : GoldenCases()) {
    if (golden.kind != "dequantize") continue;
    std::vector<std::byte> shifted(golden.view.data.size() + 1);
    std::memcpy(shifted.data() + 1, golden.view.data.data(), golden.view.data.size());
    TensorView view = golden.view;
    view.data = std::span(shifted).subspan(1);
    EXPECT_EQ(FirstBitDifference(Dequantized(view), golden.values), -1) << view.name;
  }
}

TEST(Dequantize, Fp8NotANumberPassesThrough) {
  const std::byte data[2] = {std::byte{0x7F}, std::byte{0xFF}};
  const TensorView view = MakeView(DType::kF8E4M3, 1, 2, data);
  for (const float value : Dequantized(view)) EXPECT_TRUE(std::isnan(value));
}

// Every type: a cut part is an error that names the tensor, never a read beyond it.
TEST(Dequantize, RefusesWrongSizes) {
  for (const Case& golden : GoldenCases()) {
    if (golden.kind != "dequantize") continue;
    std::vector<float> out(golden.view.elements());
    for (auto part : {&TensorView::data, &TensorView::scales, &TensorView::zeros,
                      &TensorView::group_scales, &TensorView::group_index}) {
      TensorView view = golden.view;
      if ((view.*part).empty()) continue;
      view.*part = (view.*part).first((view.*part).size() - 1);
      try {
        DequantizeRows(view, 0, view.rows(), out);
        ADD_FAILURE() << view.name;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kBadFile);
        EXPECT_NE(error.message().find(view.name), std::string::npos);
      }
    }
  }
}

TEST(Dequantize, RefusesHostileShapes) {
  const uint64_t huge = uint64_t{1} << 40;
  for (const DType type :
       {DType::kF32, DType::kQ8_0, DType::kQ4_K, DType::kF8E4M3, DType::kAwq4, DType::kGptq4}) {
    TensorView view = MakeView(type, huge, huge, {});
    view.group_size = 32;
    view.scale_block = 128;
    EXPECT_THROW(CheckTensorParts(view), Error);
    view.shape = {3, 7};
    EXPECT_THROW(CheckTensorParts(view), Error);
  }
  const TensorView no_group = MakeView(DType::kAwq4, 8, 8, {});
  EXPECT_THROW(CheckTensorParts(no_group), Error);
  const TensorView ints = MakeView(DType::kI32, 0, 8, {});
  EXPECT_THROW(CheckTensorParts(ints), Error);
}

// A word that GPTQModel 7.7.0 writes as version 1 for these zero points, and reads back as them.
TEST(Dequantize, GptqZeroPointOfZeroBorrowsFromTheNext) {
  std::array<std::byte, 4> word;
  quant_internal::Store<uint32_t>(word.data(), 0xf01efe6fu);
  const std::vector<std::byte> zero(8 * sizeof(uint32_t));
  TensorView view = MakeView(DType::kGptq4, 8, 8, zero);
  view.group_size = 8;
  view.zeros = word;
  view.group_scales = std::span(zero).first(16);
  view.zeros_minus_one = true;
  const std::array<uint8_t, 8> expected = {0, 8, 15, 0, 0, 3, 1, 0};
  for (uint64_t row = 0; row < expected.size(); ++row) {
    EXPECT_EQ(Int4Reader(view).Zero(row, 0), expected[row]) << row;
  }
}

TEST(Dequantize, RefusesGroupIndexOutOfRange) {
  for (const Case& golden : GoldenCases()) {
    if (golden.view.group_index.empty()) continue;
    std::vector<std::byte> index(golden.view.group_index.begin(), golden.view.group_index.end());
    for (const int32_t bad : {-1, 4, std::numeric_limits<int32_t>::min()}) {
      quant_internal::Store<int32_t>(index.data() + 8, bad);
      TensorView view = golden.view;
      view.group_index = index;
      std::vector<float> out(view.elements());
      EXPECT_THROW(DequantizeRows(view, 0, view.rows(), out), Error);
    }
  }
}

TEST(FindNonFinite, GoldenCasesAreFinite) {
  for (const Case& golden : GoldenCases()) {
    if (golden.kind != "dequantize" || !std::isfinite(golden.values[14])) continue;
    EXPECT_FALSE(FindNonFinite(golden.view, 0, golden.view.rows()).has_value()) << golden.view.name;
  }
}

TEST(FindNonFinite, NamesTheFirstBadScale) {
  struct Bad {
    DType type;
    size_t at;  // of an f16 scale within the block
  };
  for (const Bad bad : {Bad{DType::kQ8_0, 0}, Bad{DType::kQ4_1, 2}, Bad{DType::kQ2_K, 82},
                        Bad{DType::kQ3_K, 108}, Bad{DType::kQ5_K, 2}, Bad{DType::kQ6_K, 208}}) {
    const DTypeInfo& info = Info(bad.type);
    std::vector<std::byte> data(3 * 2 * info.block_bytes, std::byte{0x11});
    const TensorView view = MakeView(bad.type, 3, 2 * info.block_elements, data);
    EXPECT_FALSE(FindNonFinite(view, 0, 3).has_value());
    quant_internal::Store<uint16_t>(data.data() + 3 * info.block_bytes + bad.at, 0x7C00);
    const auto found = FindNonFinite(view, 0, 3);
    ASSERT_TRUE(found.has_value()) << info.name;
    EXPECT_EQ(found->row, 1u);
    EXPECT_EQ(found->block, 1u);
    EXPECT_TRUE(found->is_scale);
    EXPECT_FALSE(FindNonFinite(view, 2, 1).has_value());
  }
}

TEST(FindNonFinite, Mxfp4NanScaleAndPlainFloats) {
  std::vector<std::byte> block(17, std::byte{0xFF});
  const TensorView mx = MakeView(DType::kMXFP4, 1, 32, block);
  EXPECT_TRUE(FindNonFinite(mx, 0, 1).has_value());
  const float values[4] = {1, 2, kNan, 4};
  const TensorView plain = MakeView(DType::kF32, 2, 2, std::as_bytes(std::span(values)));
  const auto found = FindNonFinite(plain, 0, 2);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->row, 1u);
  EXPECT_EQ(found->block, 0u);
  EXPECT_FALSE(found->is_scale);
}

TEST(RowRange, SeesTheSameRows) {
  for (const Case& golden : GoldenCases()) {
    const TensorView& view = golden.view;
    if (golden.kind != "dequantize" || view.rows() < 3) continue;
    if (view.group_size != 0) {
      EXPECT_THROW(RowRange(view, 0, 1), Error);
      continue;
    }
    const uint64_t first = view.scale_block == 0 ? 1 : view.scale_block;
    const TensorView part = RowRange(view, first, view.rows() - first);
    EXPECT_EQ(FirstBitDifference(Dequantized(part),
                                 std::span(golden.values).subspan(first * view.cols())),
              -1)
        << view.name;
  }
}

}  // namespace
}  // namespace hadal
