#include "quant/panel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/hash.h"
#include "quant/quantize.h"
#include "quant/testing.h"
#include "tensor/half.h"

namespace hadal {
namespace {

using quant_testing::Case;
using quant_testing::Dequantized;
using quant_testing::FirstBitDifference;
using quant_testing::GoldenCases;
using quant_testing::MakeView;
using quant_testing::RandomFloats;

std::vector<float> Unpacked(const PanelMatrix& matrix) {
  std::vector<float> out(matrix.rows() * matrix.cols());
  for (uint64_t r = 0; r < matrix.rows(); ++r) {
    UnpackRow(matrix, r, std::span(out).subspan(r * matrix.cols(), matrix.cols()));
  }
  return out;
}

std::vector<std::byte> QuantizedRandom(DType type, uint64_t rows, uint64_t cols, uint32_t seed) {
  const uint64_t row_bytes = RowBytes(type, cols);
  const std::vector<float> values = RandomFloats(rows * cols, seed);
  std::vector<std::byte> out(rows * row_bytes);
  for (uint64_t r = 0; r < rows; ++r) {
    QuantizeRow(type, std::span(values).subspan(r * cols, cols),
                std::span(out).subspan(r * row_bytes, row_bytes));
  }
  return out;
}

void ExpectExact(const TensorView& view, WeightPolicy policy) {
  const PanelMatrix matrix = Pack(view, policy);
  EXPECT_EQ(matrix.bytes(), PanelBytes(view.rows(), view.cols(), ChooseFormat(view, policy)));
  EXPECT_EQ(FirstBitDifference(Unpacked(matrix), Dequantized(view)), -1) << view.name;
}

TEST(Panel, EveryGoldenTypeUnpacksToItsValues) {
  for (const Case& golden : GoldenCases()) {
    if (golden.kind != "dequantize" || golden.view.scale_block % kPanelRows != 0) continue;
    const PanelMatrix matrix = Pack(golden.view);
    EXPECT_EQ(FirstBitDifference(Unpacked(matrix), golden.values), -1) << golden.view.name;
    ExpectExact(golden.view, WeightPolicy::kF32);
  }
}

TEST(Panel, EveryTypeWithRaggedShapesIsExact) {
  for (int t = 0; t <= static_cast<int>(DType::kGptq4); ++t) {
    const auto type = static_cast<DType>(t);
    if (!CanQuantizeTo(type)) continue;
    const uint64_t block = Info(type).block_elements;
    for (const uint64_t rows : {1u, 15u, 16u, 17u, 40u}) {
      for (const uint64_t cols : {block, 3 * block, 7 * block}) {
        const std::vector<std::byte> data = QuantizedRandom(type, rows, cols, 3);
        ExpectExact(MakeView(type, rows, cols, data), WeightPolicy::kAsStored);
      }
    }
  }
}

TEST(Panel, FormatsAreThoseOfTheTable) {
  const auto bytes = [](DType type) {
    const PanelFormat format = ChooseFormat(MakeView(type, 16, 256, {}), WeightPolicy::kAsStored);
    return PanelBytes(16, 256, format) * 8.0 / (16 * 256);
  };
  EXPECT_EQ(bytes(DType::kF32), 32);
  EXPECT_EQ(bytes(DType::kBF16), 16);
  EXPECT_EQ(bytes(DType::kQ8_0), 8.5);
  EXPECT_EQ(bytes(DType::kQ4_0), 4.5);
  EXPECT_EQ(bytes(DType::kQ4_1), 5);
  EXPECT_EQ(bytes(DType::kQ5_0), 8.5);
  EXPECT_EQ(bytes(DType::kQ5_1), 9);
  EXPECT_EQ(bytes(DType::kQ2_K), 5.125);
  EXPECT_EQ(bytes(DType::kQ3_K), 4.625);
  EXPECT_EQ(bytes(DType::kQ4_K), 4.625);
  EXPECT_EQ(bytes(DType::kQ5_K), 8.625);
  EXPECT_EQ(bytes(DType::kQ6_K), 8.625);
  EXPECT_EQ(bytes(DType::kIQ4_NL), 8.5);
  EXPECT_EQ(bytes(DType::kIQ4_XS), 8.375);
  EXPECT_EQ(bytes(DType::kMXFP4), 9);
}

// The layout itself, from panel.h's text and not through UnpackRow.
TEST(Panel, FloatLayouts) {
  std::vector<float> x(17 * 3);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const TensorView view = MakeView(DType::kF32, 17, 3, std::as_bytes(std::span(x)));
  const PanelMatrix f32 = Pack(view);
  EXPECT_EQ(f32.panels(), 2u);
  EXPECT_EQ(reinterpret_cast<const float*>(f32.panel(0))[2 * 16 + 5], x[5 * 3 + 2]);
  EXPECT_EQ(reinterpret_cast<const float*>(f32.panel(1))[1 * 16 + 0], x[16 * 3 + 1]);
  EXPECT_EQ(reinterpret_cast<const float*>(f32.panel(1))[1 * 16 + 1], 0.0f);
  const PanelMatrix bf16 = Pack(view, WeightPolicy::kBf16);
  EXPECT_EQ(bf16.padded_cols(), 4u);
  const auto* pairs = reinterpret_cast<const uint16_t*>(bf16.panel(0));
  EXPECT_EQ(Bf16ToF32(pairs[(0 * 16 + 5) * 2 + 1]), x[5 * 3 + 1]);
  EXPECT_EQ(Bf16ToF32(pairs[(1 * 16 + 5) * 2 + 0]), x[5 * 3 + 2]);
  EXPECT_EQ(pairs[(1 * 16 + 5) * 2 + 1], 0);
}

TEST(Panel, IntegerLayouts) {
  // Row r, column c holds the q8_0 integer (r * 7 + c) % 127 and a scale that tells row and block.
  std::vector<std::byte> data(18 * 2 * 34);
  const auto code = [](uint64_t r, uint64_t c) { return static_cast<int8_t>((r * 7 + c) % 127); };
  for (uint64_t r = 0; r < 18; ++r) {
    for (uint64_t b = 0; b < 2; ++b) {
      std::byte* block = data.data() + (r * 2 + b) * 34;
      const uint16_t d = F32ToF16(static_cast<float>(r * 2 + b));
      std::memcpy(block, &d, 2);
      for (uint64_t c = 0; c < 32; ++c) block[2 + c] = static_cast<std::byte>(code(r, b * 32 + c));
    }
  }
  const PanelMatrix p8 = Pack(MakeView(DType::kQ8_0, 18, 64, data));
  EXPECT_EQ(p8.format().zero_point, 128);
  EXPECT_EQ(p8.panel_bytes(), 1088u);
  const std::byte* chunk = p8.panel(1);
  uint16_t d = 0;
  std::memcpy(&d, chunk + (1 * 16 + 1) * 2, 2);  // group 1, row 17
  EXPECT_EQ(F16ToF32(d), 35.0f);
  const std::byte* unit = chunk + 64 + 512;
  EXPECT_EQ(static_cast<int>(unit[3 * 64 + 1 * 4 + 2]), code(17, 32 + 14) + 128);
  EXPECT_EQ(static_cast<int>(unit[3 * 64 + 2 * 4 + 2]), 0);  // no such row

  const std::vector<std::byte> q4 = QuantizedRandom(DType::kQ4_0, 16, 64, 5);
  const PanelMatrix p4 = Pack(MakeView(DType::kQ4_0, 16, 64, q4));
  EXPECT_EQ(p4.format().zero_point, 8);
  for (uint32_t r = 0; r < 16; ++r) {
    const std::byte* block = q4.data() + (r * 2 + 1) * 18;  // columns 32..63
    const std::byte* from = p4.panel(0) + 64 + 256;
    for (uint32_t c = 0; c < 16; ++c) EXPECT_EQ(from[c / 4 * 64 + r * 4 + c % 4], block[2 + c]);
  }
}

TEST(Panel, Q8AndQ4QuantizeLikeTheirBlocks) {
  const std::vector<float> x = RandomFloats(20 * 100, 9);
  const TensorView view = MakeView(DType::kF32, 20, 100, std::as_bytes(std::span(x)));
  for (const auto& [policy, type] :
       {std::pair{WeightPolicy::kQ8, DType::kQ8_0}, std::pair{WeightPolicy::kQ4, DType::kQ4_0}}) {
    const PanelMatrix matrix = Pack(view, policy);
    EXPECT_EQ(matrix.padded_cols(), 128u);
    std::vector<float> row(100);
    for (uint64_t r = 0; r < 20; ++r) {
      std::vector<float> padded(128);
      std::copy_n(x.begin() + static_cast<int64_t>(r * 100), 100, padded.begin());
      std::vector<std::byte> blocks(RowBytes(type, 128));
      QuantizeRow(type, padded, blocks);
      const std::vector<float> want = Dequantized(MakeView(type, 1, 128, blocks));
      UnpackRow(matrix, r, row);
      EXPECT_EQ(FirstBitDifference(row, std::span(want).first(100)), -1);
    }
  }
}

TEST(Panel, Q8KeepsTypesThatFitExactly) {
  for (const DType type : {DType::kQ8_0, DType::kQ5_0, DType::kIQ4_NL}) {
    const std::vector<std::byte> data = QuantizedRandom(type, 17, 96, 2);
    ExpectExact(MakeView(type, 17, 96, data), WeightPolicy::kQ8);
  }
}

TEST(Panel, RefusesToQuantizeNonFiniteWeights) {
  std::vector<float> x(64, 1.0f);
  x[40] = std::numeric_limits<float>::infinity();
  TensorView view = MakeView(DType::kF32, 2, 32, std::as_bytes(std::span(x)));
  view.name = "blk.0.ffn";
  try {
    Pack(view, WeightPolicy::kQ8);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNumeric);
    EXPECT_NE(error.message().find("blk.0.ffn"), std::string::npos);
    EXPECT_NE(error.message().find("row 1"), std::string::npos);
  }
}

TEST(Panel, Fp8KeepsBlockScales) {
  const uint64_t rows = 200;
  const uint64_t cols = 300;
  std::vector<std::byte> data(rows * cols);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 37 % 126);
  const std::vector<float> scales = RandomFloats(2 * 3, 4);
  TensorView view = MakeView(DType::kF8E4M3, rows, cols, data);
  view.scales = std::as_bytes(std::span(scales));
  view.scale_block = 128;
  const PanelMatrix matrix = Pack(view);
  EXPECT_EQ(matrix.format().kind, PanelKind::kBF16);
  EXPECT_EQ(matrix.BlockScales(0)[2], scales[2]);
  EXPECT_EQ(matrix.BlockScales(7)[1], scales[1]);
  EXPECT_EQ(matrix.BlockScales(8)[1], scales[4]);
  ExpectExact(view, WeightPolicy::kAsStored);
  ExpectExact(view, WeightPolicy::kF32);
  const std::vector<float> many = RandomFloats(13 * 19, 5);  // more than one line of 64 bytes
  view.scales = std::as_bytes(std::span(many));
  view.scale_block = 16;
  ExpectExact(view, WeightPolicy::kAsStored);
  view.scale_block = 100;
  EXPECT_THROW(ChooseFormat(view, WeightPolicy::kAsStored), Error);
}

TEST(Panel, PermutedColumnsAreSortedByGroup) {
  for (const Case& golden : GoldenCases()) {
    if (golden.view.group_index.empty()) continue;
    const PanelMatrix matrix = Pack(golden.view);
    const auto order = matrix.column_permutation();
    ASSERT_EQ(order.size(), golden.view.cols());
    std::vector<uint32_t> sorted(order.begin(), order.end());
    std::sort(sorted.begin(), sorted.end());
    for (uint32_t c = 0; c < sorted.size(); ++c) EXPECT_EQ(sorted[c], c);
    int32_t before = 0;
    for (const uint32_t c : order) {
      int32_t group = 0;
      std::memcpy(&group, golden.view.group_index.data() + c * 4, 4);
      EXPECT_GE(group, before);
      before = group;
    }
    ExpectExact(golden.view, WeightPolicy::kF32);  // in the matrix's own order
    std::vector<std::byte> uneven(golden.view.group_index.begin(), golden.view.group_index.end());
    std::fill(uneven.begin(), uneven.end(), std::byte{0});
    TensorView view = golden.view;
    view.group_index = uneven;
    EXPECT_THROW(Pack(view), Error);
  }
}

TEST(Panel, RefusesInt4GroupsThatStraddleUnits) {
  TensorView view = MakeView(DType::kGptq4, 8, 96, {});
  view.group_size = 48;
  EXPECT_THROW(ChooseFormat(view, WeightPolicy::kAsStored), Error);
  view.group_size = 96;
  EXPECT_EQ(ChooseFormat(view, WeightPolicy::kAsStored).group, 32);
}

TEST(Panel, PartsInAnyOrderEqualTheWhole) {
  const std::vector<std::byte> data = QuantizedRandom(DType::kQ4_K, 70, 512, 6);
  const TensorView view = MakeView(DType::kQ4_K, 70, 512, data);
  const PanelMatrix whole = Pack(view);
  PanelArena arena;
  PanelMatrix parts(70, 512, whole.format(), arena);
  PackPanels(view, parts, 3, 2);
  PackPanels(view, parts, 0, 1);
  PackPanels(view, parts, 1, 2);
  EXPECT_EQ(std::memcmp(whole.panel(0), parts.panel(0), whole.bytes()), 0);
}

TEST(Panel, ExpertsStack) {
  const uint64_t experts = 3;
  const std::vector<std::byte> data = QuantizedRandom(DType::kQ4_1, experts * 24, 64, 8);
  const TensorView all = MakeView(DType::kQ4_1, experts * 24, 64, data);
  PanelArena arena;
  PanelMatrix stacked(experts * 32, 64, ChooseFormat(all, WeightPolicy::kAsStored), arena);
  for (uint64_t e = 0; e < experts; ++e) {
    PackPanels(RowRange(all, e * 24, 24), stacked, 0, 2, e * 2);
  }
  const std::vector<float> want = Dequantized(all);
  std::vector<float> row(64);
  for (uint64_t e = 0; e < experts; ++e) {
    for (uint64_t r = 0; r < 24; ++r) {
      UnpackRow(stacked, e * 32 + r, row);
      EXPECT_EQ(FirstBitDifference(row, std::span(want).subspan((e * 24 + r) * 64, 64)), -1);
    }
  }
}

TEST(Panel, MemoryIsAlignedZeroedAndApart) {
  std::vector<PanelMatrix> matrices;
  {
    PanelArena arena;
    // Alone, in a shared mapping, at the end of one, beyond the size of one.
    for (const uint64_t rows : {16u, 160u, 800u, 800u, 800u, 160u, 80000u, 160u}) {
      PanelMatrix matrix(rows, 1000, {.kind = PanelKind::kF32}, arena);
      EXPECT_EQ(matrix.bytes(), rows * 1000 * 4);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(matrix.panel(0)) % kPanelAlignment, 0u);
      const auto* end = matrix.panel(0) + matrix.bytes();
      EXPECT_TRUE(std::all_of(matrix.panel(0), end, [](std::byte b) { return b == std::byte{0}; }));
      const auto filled = static_cast<int>(matrices.size() + 1);
      std::memset(matrix.mutable_panel(0), filled, matrix.bytes());
      matrices.push_back(std::move(matrix));
    }
    EXPECT_TRUE(PanelMatrix(0, 8, {}, arena).empty());
  }
  matrices.erase(matrices.begin() + 2);  // a mapping stays while a matrix lies in it
  for (size_t i = 0; i < matrices.size(); ++i) {
    const auto filled = static_cast<std::byte>(i + (i < 2 ? 1 : 2));
    const auto contents = matrices[i].contents();
    EXPECT_TRUE(std::all_of(contents.begin(), contents.end(), [filled](std::byte b) {
      return b == filled;
    })) << i;
  }
}

TEST(PanelBytes, RefusesShapesThatOverflow) {
  const uint64_t huge = uint64_t{1} << 60;
  EXPECT_THROW(PanelBytes(huge, 1, {}), Error);
  EXPECT_THROW(PanelBytes(1, huge, {}), Error);
  EXPECT_THROW(PanelBytes(uint64_t{1} << 40, uint64_t{1} << 40, {}), Error);
  EXPECT_EQ(PanelBytes(17, 5, {}), 2u * 5 * 64);
}

// Packed weights are kept in files from one start to the next.
TEST(Panel, PackedBytesChangeOnlyWithTheirVersion) {
  uint64_t hash = 0;
  for (const Case& golden : GoldenCases()) {
    if (golden.kind != "dequantize" || golden.view.scale_block % kPanelRows != 0) continue;
    for (const WeightPolicy policy : {WeightPolicy::kAsStored, WeightPolicy::kF32,
                                      WeightPolicy::kBf16, WeightPolicy::kQ8, WeightPolicy::kQ4}) {
      try {
        hash = Hash64(Pack(golden.view, policy).contents(), hash);
      } catch (const Error&) {
        hash = Hash64({}, hash);  // values that cannot be quantized anew
      }
    }
  }
  // Where the hash differs, raise kPackingVersion and write both down here.
  EXPECT_EQ(kPackingVersion, 1u);
  EXPECT_EQ(hash, 14601856876780380649u);
}

}  // namespace
}  // namespace hadal
