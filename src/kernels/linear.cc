#include <algorithm>

#include "base/check.h"
#include "kernels/linear_kernels.h"

namespace hadal {
namespace {

// Integer panels have chunks of up to 256 columns; all forms are padded to it.
constexpr uint32_t kPadCols = 256;
constexpr uint32_t kBf16PadCols = 16;  // a vector at a time
constexpr uint32_t kLine = 64;
constexpr uint32_t kSmallestGroup = 16;

// Rows a multiple of 4096 bytes apart would all fall into the same few cache sets.
uint32_t SpreadRow(uint64_t bytes) {
  const auto row = static_cast<uint32_t>(AlignUp(bytes, kLine));
  return row % 1024 == 0 ? row + kLine : row;
}

}  // namespace

ActivationForm FormFor(const LinearKernels& kernels, const PanelFormat& format) {
  ActivationForm form;
  if (format.kind == PanelKind::kBF16 && format.scale_block == 0) form.kind = kernels.bf16_rows;
  if (format.scales == ScaleKind::kNone) return form;
  form.kind = ActivationKind::kInt8;
  form.group = format.group;
  form.has_min = format.has_min;
  form.zero_point = format.has_min ? 0 : format.zero_point;
  return form;
}

ActivationLayout LayoutFor(const ActivationForm& form, uint32_t cols) {
  ActivationLayout layout;
  layout.cols = cols;
  layout.padded_cols = cols;
  if (form.kind == ActivationKind::kF32) return layout;
  if (form.kind == ActivationKind::kBf16) {
    layout.padded_cols = static_cast<uint32_t>(AlignUp(cols, kBf16PadCols));
    layout.row_bytes = SpreadRow(uint64_t{2} * layout.padded_cols);
    return layout;
  }
  if (form.kind == ActivationKind::kBf16Pair) {
    layout.padded_cols = static_cast<uint32_t>(AlignUp(cols, kBf16PairBlock));
    layout.row_bytes = SpreadRow(uint64_t{4} * layout.padded_cols);
    return layout;
  }
  HADAL_CHECK(form.group >= kSmallestGroup && kPadCols % form.group == 0);
  layout.padded_cols = static_cast<uint32_t>(AlignUp(cols, kPadCols));
  const uint32_t scale_bytes = layout.padded_cols / form.group * 4;
  layout.scale_at = layout.padded_cols;
  layout.sum_at = layout.scale_at + scale_bytes;
  layout.row_bytes = SpreadRow(uint64_t{layout.sum_at} + scale_bytes);
  return layout;
}

uint32_t MaxActivationRowBytes(const LinearKernels& kernels, uint32_t cols) {
  const uint32_t ints =
      LayoutFor({ActivationKind::kInt8, kSmallestGroup, false, 0}, cols).row_bytes;
  return std::max(ints, LayoutFor({kernels.bf16_rows, 0, false, 0}, cols).row_bytes);
}

}  // namespace hadal
