#include "quant/panel.h"

#include <limits>
#include <string>

#include "base/check.h"
#include "base/error.h"
#include "quant/blocks_internal.h"

namespace hadal {
namespace {

constexpr PanelFormat kQ8Format = {
    .kind = PanelKind::kP8, .scales = ScaleKind::kF16, .group = 32, .zero_point = 128};
constexpr PanelFormat kQ4Format = {
    .kind = PanelKind::kP4, .scales = ScaleKind::kF16, .group = 32, .zero_point = 8};

// The table in panel.h.
constexpr uint32_t Bytes(PanelKind kind, ScaleKind scales, uint16_t group, bool has_min) {
  return LayoutOf({.kind = kind, .scales = scales, .group = group, .has_min = has_min}).bytes;
}
static_assert(LayoutOf(kQ8Format).bytes == 1088 && LayoutOf(kQ4Format).bytes == 576);
static_assert(Bytes(PanelKind::kP8, ScaleKind::kF16, 32, true) == 576);
static_assert(Bytes(PanelKind::kP8, ScaleKind::kF32, 32, false) == 576);
static_assert(Bytes(PanelKind::kP8, ScaleKind::kSuper, 16, false) == 4416);
static_assert(Bytes(PanelKind::kP8, ScaleKind::kSuper, 32, false) == 4288);
static_assert(Bytes(PanelKind::kP8, ScaleKind::kSuper, 32, true) == 4416);
static_assert(Bytes(PanelKind::kP4, ScaleKind::kF16, 32, true) == 320);
static_assert(Bytes(PanelKind::kP4, ScaleKind::kF32, 32, true) == 384);
static_assert(Bytes(PanelKind::kP4, ScaleKind::kF32, 128, true) == 1152);
static_assert(Bytes(PanelKind::kP4, ScaleKind::kSuper, 16, false) == 2368);
static_assert(Bytes(PanelKind::kP4, ScaleKind::kSuper, 16, true) == 2624);
static_assert(Bytes(PanelKind::kP4, ScaleKind::kSuper, 32, true) == 2368);

uint64_t BytesPerPanel(uint64_t cols, const PanelFormat& format) {
  const ChunkLayout chunk = LayoutOf(format);
  const uint64_t scales =
      format.scale_block == 0 ? 0 : AlignUp(CeilDiv(cols, format.scale_block) * 4, 64);
  return CeilDiv(cols, chunk.cols) * chunk.bytes + scales;
}

PanelFormat Int4Format(const TensorView& view) {
  PanelFormat format = {.kind = PanelKind::kP4, .scales = ScaleKind::kF32, .has_min = true};
  // A single group may have any size: the columns beyond it are padding.
  if (view.group_size == 0 || (view.group_size % 32 != 0 && view.group_size < view.cols())) {
    Fail(ErrorKind::kUnsupported,
         "tensor '{}': int4 groups of {} columns; only multiples of 32 are supported", view.name,
         view.group_size);
  }
  format.group = view.group_size % 128 == 0 ? 128 : 32;
  format.permuted = !view.group_index.empty();
  return format;
}

PanelFormat F8Format(const TensorView& view) {
  if (view.scale_block % kPanelRows != 0) {
    Fail(ErrorKind::kUnsupported,
         "tensor '{}': FP8 scale blocks of side {}; only multiples of {} are supported", view.name,
         view.scale_block, kPanelRows);
  }
  return {.kind = PanelKind::kBF16, .scale_block = view.scale_block};
}

PanelFormat AsStored(const TensorView& view) {
  switch (view.dtype) {
    case DType::kF32:
      return {.kind = PanelKind::kF32};
    case DType::kF16:
      return {.kind = PanelKind::kF16};
    case DType::kBF16:
      return {.kind = PanelKind::kBF16};
    case DType::kF8E4M3:
      return F8Format(view);
    case DType::kAwq4:
    case DType::kGptq4:
      return Int4Format(view);
    default:
      break;
  }
  const BlockType* type = FindBlockType(view.dtype);
  if (type == nullptr) {
    Fail(ErrorKind::kUnsupported, "tensor '{}': type {} cannot hold weights", view.name,
         Name(view.dtype));
  }
  return {.kind = type->bits == 4 ? PanelKind::kP4 : PanelKind::kP8,
          .scales = type->scales,
          .group = type->group,
          .has_min = type->has_min,
          .zero_point = type->zero_point};
}

}  // namespace

PanelFormat ChooseFormat(const TensorView& view, WeightPolicy policy) {
  const PanelFormat stored = AsStored(view);
  switch (policy) {
    case WeightPolicy::kAsStored:
      return stored;
    case WeightPolicy::kF32:
      return {.kind = PanelKind::kF32};
    case WeightPolicy::kBf16:
      return {.kind = PanelKind::kBF16};
    case WeightPolicy::kQ8:
      return kQ8Format;
    case WeightPolicy::kQ4:
      return kQ4Format;
  }
  HADAL_CHECK(false);
  return stored;
}

uint64_t PanelBytes(uint64_t rows, uint64_t cols, const PanelFormat& format) {
  // Beyond 2^48 columns (or any sane matrix) the products below could wrap.
  constexpr uint64_t kMost = uint64_t{1} << 48;
  uint64_t bytes = 0;
  if (rows > kMost || cols > kMost ||
      __builtin_mul_overflow(CeilDiv(rows, kPanelRows), BytesPerPanel(cols, format), &bytes) ||
      bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / 2) {
    Fail(ErrorKind::kUnsupported, "a matrix of {} x {} weights is too large", rows, cols);
  }
  if (rows == 0 || cols == 0) return 0;
  return bytes + (format.permuted ? AlignUp(cols * 4, kPanelAlignment) : 0);
}

PanelMatrix::PanelMatrix(uint64_t rows, uint64_t cols, const PanelFormat& format, PanelArena& arena)
    : rows_(rows), cols_(cols), format_(format), chunk_(LayoutOf(format)) {
  bytes_ = PanelBytes(rows, cols, format);
  panels_ = CeilDiv(rows, kPanelRows);
  chunks_ = CeilDiv(cols, chunk_.cols);
  panel_bytes_ = BytesPerPanel(cols, format);
  if (bytes_ == 0) return;
  WithContext(std::to_string(rows) + " x " + std::to_string(cols),
              [&] { data_ = arena.Take(bytes_); });
}

const float* PanelMatrix::BlockScales(uint64_t p) const {
  HADAL_CHECK(format_.scale_block != 0);
  return reinterpret_cast<const float*>(panel(p) + chunks_ * chunk_.bytes);
}

float* PanelMatrix::MutableBlockScales(uint64_t p) {
  HADAL_CHECK(format_.scale_block != 0);
  return reinterpret_cast<float*>(mutable_panel(p) + chunks_ * chunk_.bytes);
}

std::span<const uint32_t> PanelMatrix::column_permutation() const {
  if (!format_.permuted || empty()) return {};
  return {reinterpret_cast<const uint32_t*>(panel(panels_)), cols_};
}

std::span<uint32_t> PanelMatrix::mutable_column_permutation() {
  if (!format_.permuted || empty()) return {};
  return {reinterpret_cast<uint32_t*>(mutable_panel(panels_)), cols_};
}

}  // namespace hadal
