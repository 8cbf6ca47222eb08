#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/align.h"
#include "base/check.h"
#include "base/error.h"
#include "quant/blocks.h"
#include "quant/blocks_internal.h"
#include "quant/int4.h"

namespace hadal {
namespace {

using quant_internal::Load;

bool IsInt4(DType type) {
  return type == DType::kAwq4 || type == DType::kGptq4;
}

// a * b * c, or Error(kBadFile) where that does not fit 63 bits.
uint64_t Multiply(const TensorView& view, uint64_t a, uint64_t b, uint64_t c = 1) {
  uint64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result) || __builtin_mul_overflow(result, c, &result) ||
      result > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    Fail(ErrorKind::kBadFile, "tensor '{}': its shape is too large", view.name);
  }
  return result;
}

void CheckSize(const TensorView& view, std::string_view part, uint64_t actual, uint64_t expected) {
  if (actual == expected) return;
  Fail(ErrorKind::kBadFile, "tensor '{}' ({}): {} has {} bytes, but its shape needs {}", view.name,
       Name(view.dtype), part, actual, expected);
}

void CheckInt4(const TensorView& view, uint64_t rows, uint64_t cols) {
  if (view.group_size == 0) {
    Fail(ErrorKind::kBadFile, "tensor '{}': an int4 matrix without a group size", view.name);
  }
  const uint64_t packed = view.dtype == DType::kAwq4 ? rows : cols;
  if (rows % 8 != 0 || packed % 8 != 0) {
    Fail(ErrorKind::kBadFile, "tensor '{}': int4 packing needs multiples of 8, not [{}, {}]",
         view.name, rows, cols);
  }
  const uint64_t groups = CeilDiv(cols, view.group_size);
  CheckSize(view, "qweight", view.data.size(), Multiply(view, rows, cols) / 2);
  CheckSize(view, "qzeros", view.zeros.size(), Multiply(view, groups, rows) / 2);
  CheckSize(view, "scales", view.group_scales.size(), Multiply(view, groups, rows, 2));
  if (!view.group_index.empty()) {
    CheckSize(view, "g_idx", view.group_index.size(), Multiply(view, cols, 4));
  }
}

void PlainRow(DType type, const std::byte* data, uint64_t cols, float* out) {
  switch (type) {
    case DType::kF32:
      std::memcpy(out, data, cols * 4);
      break;
    case DType::kF16:
      for (uint64_t c = 0; c < cols; ++c) out[c] = F16ToF32(Load<uint16_t>(data + c * 2));
      break;
    case DType::kBF16:
      for (uint64_t c = 0; c < cols; ++c) out[c] = Bf16ToF32(Load<uint16_t>(data + c * 2));
      break;
    default:
      HADAL_CHECK(false);
  }
}

float F8Scale(const TensorView& view, uint64_t row, uint64_t block) {
  const uint64_t per_row = CeilDiv(view.cols(), view.scale_block);
  return Load<float>(view.scales.data() + (row / view.scale_block * per_row + block) * 4);
}

void F8Row(const TensorView& view, uint64_t row, float* out) {
  const uint64_t cols = view.cols();
  const std::byte* data = view.data.data() + row * cols;
  for (uint64_t c = 0; c < cols; ++c) out[c] = F8E4M3ToF32(static_cast<uint8_t>(data[c]));
  if (view.scale_block == 0) return;
  for (uint64_t first = 0; first < cols; first += view.scale_block) {
    const float scale = F8Scale(view, row, first / view.scale_block);
    const uint64_t end = std::min<uint64_t>(cols, first + view.scale_block);
    for (uint64_t c = first; c < end; ++c) out[c] *= scale;
  }
}

void Int4Row(const TensorView& view, const Int4Reader& reader, uint64_t row, float* out) {
  for (uint64_t c = 0; c < view.cols(); ++c) {
    const uint64_t group = reader.GroupOf(c);
    const float d = reader.Scale(row, group);
    const float m = -(d * static_cast<float>(reader.Zero(row, group)));
    out[c] = d * static_cast<float>(reader.Code(row, c)) + m;
  }
}

bool ScalesFinite(const BlockType& type, const std::byte* block) {
  BlockCodes codes;
  type.decode(block, codes);
  bool finite = true;
  for (uint32_t g = 0; g < static_cast<uint32_t>(type.block / type.group); ++g) {
    finite = finite && std::isfinite(codes.d[g]) && std::isfinite(codes.m[g]);
  }
  return finite;
}

std::optional<NonFinite> NonFiniteInRow(const TensorView& view, uint64_t row) {
  const uint64_t cols = view.cols();
  if (const BlockType* type = FindBlockType(view.dtype)) {
    const uint64_t bytes = Info(view.dtype).block_bytes;
    const uint64_t blocks = cols / type->block;
    for (uint64_t b = 0; b < blocks; ++b) {
      if (!ScalesFinite(*type, view.data.data() + (row * blocks + b) * bytes)) {
        return NonFinite{row, b, true};
      }
    }
    return std::nullopt;
  }
  if (IsInt4(view.dtype)) {
    const Int4Reader reader(view);
    for (uint64_t g = 0; g < reader.groups(); ++g) {
      if (!std::isfinite(reader.Scale(row, g))) return NonFinite{row, g, true};
    }
    return std::nullopt;
  }
  if (view.dtype == DType::kF8E4M3 && view.scale_block != 0) {
    for (uint64_t b = 0; b < CeilDiv(cols, view.scale_block); ++b) {
      if (!std::isfinite(F8Scale(view, row, b))) return NonFinite{row, b, true};
    }
  }
  std::vector<float> values(cols);
  DequantizeRows(view, row, 1, values);
  for (uint64_t c = 0; c < cols; ++c) {
    if (!std::isfinite(values[c])) return NonFinite{row, c, false};
  }
  return std::nullopt;
}

}  // namespace

void CheckTensorParts(const TensorView& view) {
  uint64_t elements = 1;
  for (const uint64_t dim : view.shape) elements = Multiply(view, elements, dim);
  const uint64_t cols = view.cols();
  const uint64_t rows = view.rows();
  if (IsInt4(view.dtype)) return CheckInt4(view, rows, cols);
  const DTypeInfo& info = Info(view.dtype);
  const bool is_float = view.dtype <= DType::kF8E4M3;
  if (!is_float && FindBlockType(view.dtype) == nullptr) {
    Fail(ErrorKind::kUnsupported, "tensor '{}': type {} cannot hold weights", view.name, info.name);
  }
  if (cols % info.block_elements != 0) {
    Fail(ErrorKind::kBadFile, "tensor '{}': {} columns are not a multiple of {}'s block of {}",
         view.name, cols, info.name, info.block_elements);
  }
  CheckSize(view, "its data", view.data.size(),
            Multiply(view, elements / info.block_elements, info.block_bytes));
  if (view.dtype == DType::kF8E4M3 && view.scale_block != 0) {
    const uint64_t blocks =
        Multiply(view, CeilDiv(rows, view.scale_block), CeilDiv(cols, view.scale_block), 4);
    CheckSize(view, "weight_scale_inv", view.scales.size(), blocks);
  }
}

void DequantizeRows(const TensorView& view, uint64_t first_row, uint64_t n_rows,
                    std::span<float> out) {
  CheckTensorParts(view);
  const uint64_t cols = view.cols();
  HADAL_CHECK(first_row <= view.rows() && n_rows <= view.rows() - first_row);
  HADAL_CHECK(out.size() == n_rows * cols);
  if (IsInt4(view.dtype)) {
    const Int4Reader reader(view);
    for (uint64_t r = 0; r < n_rows; ++r) {
      Int4Row(view, reader, first_row + r, out.data() + r * cols);
    }
    return;
  }
  if (view.dtype == DType::kF8E4M3) {
    for (uint64_t r = 0; r < n_rows; ++r) F8Row(view, first_row + r, out.data() + r * cols);
    return;
  }
  const BlockType* type = FindBlockType(view.dtype);
  const DTypeInfo& info = Info(view.dtype);
  const uint64_t row_bytes = RowBytes(view.dtype, cols);
  for (uint64_t r = 0; r < n_rows; ++r) {
    const std::byte* data = view.data.data() + (first_row + r) * row_bytes;
    float* row = out.data() + r * cols;
    if (type == nullptr) {
      PlainRow(view.dtype, data, cols, row);
      continue;
    }
    for (uint64_t c = 0; c < cols; c += type->block, data += info.block_bytes) {
      DequantizeBlock(*type, data, row + c);
    }
  }
}

std::optional<NonFinite> FindNonFinite(const TensorView& view, uint64_t first_row,
                                       uint64_t n_rows) {
  CheckTensorParts(view);
  HADAL_CHECK(first_row <= view.rows() && n_rows <= view.rows() - first_row);
  for (uint64_t row = first_row; row < first_row + n_rows; ++row) {
    if (const auto found = NonFiniteInRow(view, row)) return found;
  }
  return std::nullopt;
}

TensorView RowRange(const TensorView& view, uint64_t first_row, uint64_t n_rows) {
  CheckTensorParts(view);
  HADAL_CHECK(first_row <= view.rows() && n_rows <= view.rows() - first_row);
  if (IsInt4(view.dtype)) {
    Fail(ErrorKind::kUnsupported, "tensor '{}': {} matrices cannot be cut by rows", view.name,
         Name(view.dtype));
  }
  TensorView part = view;
  part.shape = {n_rows, view.cols()};
  const uint64_t row_bytes = RowBytes(view.dtype, view.cols());
  part.data = view.data.subspan(first_row * row_bytes, n_rows * row_bytes);
  if (view.dtype == DType::kF8E4M3 && view.scale_block != 0) {
    HADAL_CHECK(first_row % view.scale_block == 0);
    const uint64_t per_row = CeilDiv(view.cols(), view.scale_block) * 4;
    part.scales = view.scales.subspan(first_row / view.scale_block * per_row,
                                      CeilDiv(n_rows, view.scale_block) * per_row);
  }
  return part;
}

}  // namespace hadal
