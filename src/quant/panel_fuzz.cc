// Any bytes as a tensor of any type: either one clear Error, or values that survive packing.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "quant/panel.h"

namespace hadal {
namespace {

// `size` bytes of the input, repeated as needed; a cut part when `cut` is set.
std::vector<std::byte> Part(std::span<const uint8_t> input, uint64_t size, bool cut) {
  std::vector<std::byte> part(cut && size > 0 ? size - 1 : size);
  for (size_t i = 0; i < part.size(); ++i) {
    part[i] = static_cast<std::byte>(input.empty() ? 0 : input[i % input.size()]);
  }
  return part;
}

bool SameFloat(float a, float b) {
  return a == b || (a != a && b != b);
}

void Check(const TensorView& view) {
  std::vector<float> want(view.elements());
  DequantizeRows(view, 0, view.rows(), want);
  static_cast<void>(FindNonFinite(view, 0, view.rows()));
  std::vector<float> row(view.cols());
  for (const WeightPolicy policy : {WeightPolicy::kAsStored, WeightPolicy::kF32}) {
    const PanelMatrix matrix = Pack(view, policy);
    for (uint64_t r = 0; r < matrix.rows(); ++r) {
      UnpackRow(matrix, r, row);
      for (uint64_t c = 0; c < row.size(); ++c) {
        HADAL_CHECK(SameFloat(row[c], want[r * row.size() + c]));
      }
    }
  }
  for (const WeightPolicy policy : {WeightPolicy::kBf16, WeightPolicy::kQ8, WeightPolicy::kQ4}) {
    static_cast<void>(Pack(view, policy));
  }
}

void Run(std::span<const uint8_t> input) {
  if (input.size() < 8) return;
  TensorView view;
  view.name = "w";
  view.dtype = static_cast<DType>(input[0] % (static_cast<int>(DType::kGptq4) + 1));
  const uint64_t step = std::max(Info(view.dtype).block_elements, input[1] & 1u ? 8u : 1u);
  const uint64_t rows = input[2] % 40;
  const uint64_t cols = step * (input[3] % 12);
  const uint8_t cut = input[4];  // a bit per part
  view.group_size = input[5];
  view.scale_block = view.dtype == DType::kF8E4M3 ? input[6] : 0;
  view.zeros_minus_one = (input[7] & 1) != 0;
  view.shape = {rows, cols};
  input = input.subspan(8);

  const bool int4 = view.dtype >= DType::kAwq4;
  const uint64_t bytes = int4 ? rows * cols / 2 : RowBytes(view.dtype, cols) * rows;
  const auto per = [](uint64_t n, uint64_t side) { return side == 0 ? 0 : (n + side - 1) / side; };
  const uint64_t groups = per(cols, view.group_size);
  const auto data = Part(input, bytes, (cut & 1) != 0);
  const auto scales =
      Part(input, per(rows, view.scale_block) * per(cols, view.scale_block) * 4, (cut & 2) != 0);
  const auto zeros = Part(input, int4 ? groups * rows / 2 : 0, (cut & 4) != 0);
  const auto group_scales = Part(input, int4 ? groups * rows * 2 : 0, (cut & 8) != 0);
  const auto index = Part(input, int4 && (cut & 16) != 0 ? cols * 4 : 0, (cut & 32) != 0);
  view.data = data;
  view.scales = scales;
  view.zeros = zeros;
  view.group_scales = group_scales;
  view.group_index = index;
  Check(view);
}

}  // namespace
}  // namespace hadal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    hadal::Run({data, size});
  } catch (const hadal::Error&) {
  }
  return 0;
}
