#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "quant/blocks_internal.h"
#include "quant/int4.h"
#include "quant/pack_internal.h"
#include "quant/panel.h"
#include "quant/quantize.h"

namespace hadal {
namespace {

using quant_internal::FloatOffset;
using quant_internal::Store;

// Puts the 32 integers of one unit and row in place.
void PutUnit(PanelKind kind, const uint8_t* u, uint32_t r, std::byte* unit) {
  if (kind == PanelKind::kP8) {
    for (uint32_t q = 0; q < 8; ++q) std::memcpy(unit + q * 64 + r * 4, u + q * 4, 4);
    return;
  }
  for (uint32_t k = 0; k < 16; ++k) {
    unit[k / 4 * 64 + r * 4 + k % 4] = static_cast<std::byte>(u[k] | u[k + 16] << 4);
  }
}

// The scales of `groups` groups, `first` being the chunk's first group that `codes` has.
void PutScales(const PanelMatrix& out, const BlockCodes& codes, uint32_t first, uint32_t groups,
               uint32_t r, std::byte* chunk) {
  const ChunkLayout& layout = out.chunk();
  const bool has_min = out.format().has_min;
  if (out.format().scales == ScaleKind::kSuper) {
    Store(chunk + layout.d_at + 2 * r, codes.d16);
    if (has_min) Store(chunk + layout.m_at + 2 * r, codes.m16);
  }
  for (uint32_t g = 0; g < groups; ++g) {
    const uint32_t slot = (first + g) * kPanelRows + r;
    switch (out.format().scales) {
      case ScaleKind::kF16:
        Store(chunk + layout.d_at + 2 * slot, codes.d16);
        if (has_min) Store(chunk + layout.m_at + 2 * slot, codes.m16);
        break;
      case ScaleKind::kF32:
        Store(chunk + layout.d_at + 4 * slot, codes.d[g]);
        if (has_min) Store(chunk + layout.m_at + 4 * slot, codes.m[g]);
        break;
      case ScaleKind::kSuper:
        Store(chunk + layout.scale_at + slot, codes.scale[g]);
        if (has_min) Store(chunk + layout.min_at + slot, codes.min[g]);
        break;
      case ScaleKind::kNone:
        HADAL_CHECK(false);
    }
  }
}

// One row of blocks, whose format is that of `out`.
void PutBlocks(const BlockType& type, const std::byte* data, uint64_t blocks, uint32_t r,
               const PanelMatrix& out, std::byte* panel) {
  const ChunkLayout& layout = out.chunk();
  const uint64_t block_bytes = Info(type.type).block_bytes;
  BlockCodes codes;
  for (uint64_t b = 0; b < blocks; ++b) {
    type.decode(data + b * block_bytes, codes);
    const uint64_t column = b * type.block;
    std::byte* chunk = panel + column / layout.cols * layout.bytes;
    const auto in_chunk = static_cast<uint32_t>(column % layout.cols);
    PutScales(out, codes, in_chunk / type.group, type.block / type.group, r, chunk);
    for (uint32_t k = 0; k < type.block; k += kUnitCols) {
      PutUnit(out.format().kind, codes.u + k, r,
              chunk + layout.weights_at + (in_chunk + k) / kUnitCols * layout.unit_bytes);
    }
  }
}

template <typename T>
void PutRow(std::span<const std::byte> row, uint32_t r, PanelKind kind, std::byte* panel) {
  for (uint64_t k = 0; k < row.size() / sizeof(T); ++k) {
    std::memcpy(panel + FloatOffset(kind, k, r), row.data() + k * sizeof(T), sizeof(T));
  }
}

// One row stored in the panel's own float type, or FP8 for kBF16.
void PutStoredFloats(const TensorView& view, uint64_t row, uint32_t r, PanelKind kind,
                     std::byte* panel) {
  const uint64_t row_bytes = RowBytes(view.dtype, view.cols());
  const auto data = view.data.subspan(row * row_bytes, row_bytes);
  switch (view.dtype) {
    case DType::kF32:
      return PutRow<float>(data, r, PanelKind::kF32, panel);
    case DType::kF16:
      return PutRow<uint16_t>(data, r, PanelKind::kF16, panel);
    case DType::kBF16:
      return PutRow<uint16_t>(data, r, PanelKind::kBF16, panel);
    default:
      HADAL_CHECK(view.dtype == DType::kF8E4M3 && kind == PanelKind::kBF16);
  }
  static const std::array<uint16_t, 256> bf16_of = [] {
    std::array<uint16_t, 256> table;
    for (uint32_t i = 0; i < 256; ++i) {
      table[i] = F32ToBf16(F8E4M3ToF32(static_cast<uint8_t>(i)));  // exact
    }
    return table;
  }();
  for (uint64_t k = 0; k < data.size(); ++k) {
    Store(panel + FloatOffset(PanelKind::kBF16, k, r), bf16_of[static_cast<uint8_t>(data[k])]);
  }
}

void PutFloats(std::span<const float> values, uint32_t r, PanelKind kind, std::byte* panel) {
  for (uint64_t k = 0; k < values.size(); ++k) {
    std::byte* at = panel + FloatOffset(kind, k, r);
    if (kind == PanelKind::kF32) {
      Store(at, values[k]);
    } else {
      HADAL_CHECK(kind == PanelKind::kBF16);
      Store(at, F32ToBf16(values[k]));
    }
  }
}

// Rows that lose their type: through f32, to plain floats or to new blocks.
void PackAnewRow(const TensorView& view, uint64_t row, const PanelMatrix& out, std::byte* panel) {
  const auto r = static_cast<uint32_t>(row % kPanelRows);
  const uint64_t cols = view.cols();
  std::vector<float> values(AlignUp(cols, kUnitCols));
  DequantizeRows(view, row, 1, std::span(values).first(cols));
  if (out.format().scales == ScaleKind::kNone) {
    PutFloats(std::span(values).first(cols), r, out.format().kind, panel);
    return;
  }
  const DType type = out.format().kind == PanelKind::kP8 ? DType::kQ8_0 : DType::kQ4_0;
  const BlockType& blocks = *FindBlockType(type);
  std::vector<std::byte> bytes(RowBytes(type, values.size()));
  WithContext("tensor '" + view.name + "', row " + std::to_string(row),
              [&] { QuantizeRow(type, values, bytes); });
  PutBlocks(blocks, bytes.data(), values.size() / blocks.block, r, out, panel);
}

// Columns outermost: one word holds several rows, and neighbouring rows lie in one cache line.
void PackInt4Panel(const TensorView& view, std::span<const uint32_t> order, uint64_t p,
                   const PanelMatrix& out, std::byte* panel) {
  const Int4Reader reader(view);
  const ChunkLayout& layout = out.chunk();
  const uint64_t cols = view.cols();
  const auto rows = static_cast<uint32_t>(std::min<uint64_t>(16, view.rows() - p * kPanelRows));
  BlockCodes codes = {};
  for (uint64_t column = 0; column < cols; column += kUnitCols) {
    std::byte* chunk = panel + column / layout.cols * layout.bytes;
    const uint64_t unit = column % layout.cols / kUnitCols;
    const uint64_t group = column / view.group_size;
    for (uint32_t r = 0; r < rows; ++r) {
      const uint64_t row = p * kPanelRows + r;
      for (uint64_t k = 0; k < kUnitCols; ++k) {
        const uint64_t from = column + k;
        codes.u[k] = from < cols ? reader.Code(row, order.empty() ? from : order[from]) : 0;
      }
      PutUnit(PanelKind::kP4, codes.u, r, chunk + layout.weights_at + unit * layout.unit_bytes);
      if (unit != 0) continue;
      codes.d[0] = reader.Scale(row, group);
      codes.m[0] = -(codes.d[0] * static_cast<float>(reader.Zero(row, group)));
      PutScales(out, codes, 0, 1, r, chunk);
    }
  }
}

void PackStoredPanel(const TensorView& view, uint64_t p, PanelMatrix& out, uint64_t to) {
  const BlockType* type = FindBlockType(view.dtype);
  const uint64_t row_bytes = RowBytes(view.dtype, view.cols());
  const uint64_t end = std::min(view.rows(), (p + 1) * kPanelRows);
  for (uint64_t row = p * kPanelRows; row < end; ++row) {
    const auto r = static_cast<uint32_t>(row % kPanelRows);
    if (type == nullptr) {
      PutStoredFloats(view, row, r, out.format().kind, out.mutable_panel(to));
    } else {
      PutBlocks(*type, view.data.data() + row * row_bytes, view.cols() / type->block, r, out,
                out.mutable_panel(to));
    }
  }
  if (const uint32_t side = out.format().scale_block; side != 0) {
    const uint64_t bytes = CeilDiv(view.cols(), side) * sizeof(float);
    std::memcpy(out.MutableBlockScales(to), view.scales.data() + p * kPanelRows / side * bytes,
                bytes);
  }
}

}  // namespace

void PackPanels(const TensorView& view, PanelMatrix& out, uint64_t first_panel, uint64_t n_panels,
                uint64_t panel_offset) {
  CheckTensorParts(view);
  const uint64_t panels = CeilDiv(view.rows(), kPanelRows);
  HADAL_CHECK(view.cols() == out.cols() && first_panel <= panels &&
              n_panels <= panels - first_panel);
  HADAL_CHECK(panel_offset <= out.panels() && panels <= out.panels() - panel_offset);
  const bool as_stored = out.format() == ChooseFormat(view, WeightPolicy::kAsStored);
  std::vector<uint32_t> order;
  if (as_stored && out.format().permuted) {
    HADAL_CHECK(panel_offset == 0);
    order = ColumnOrder(view);
    if (first_panel == 0) {
      std::copy(order.begin(), order.end(), out.mutable_column_permutation().begin());
    }
  }
  const bool int4 = view.dtype == DType::kAwq4 || view.dtype == DType::kGptq4;
  for (uint64_t p = first_panel; p < first_panel + n_panels; ++p) {
    const uint64_t to = p + panel_offset;
    if (as_stored && int4) {
      PackInt4Panel(view, order, p, out, out.mutable_panel(to));
    } else if (as_stored) {
      PackStoredPanel(view, p, out, to);
    } else {
      const uint64_t end = std::min(view.rows(), (p + 1) * kPanelRows);
      for (uint64_t row = p * kPanelRows; row < end; ++row) {
        PackAnewRow(view, row, out, out.mutable_panel(to));
      }
    }
  }
}

PanelMatrix Pack(const TensorView& view, WeightPolicy policy) {
  CheckTensorParts(view);
  PanelArena arena;
  PanelMatrix matrix(view.rows(), view.cols(), ChooseFormat(view, policy), arena);
  PackPanels(view, matrix, 0, matrix.panels());
  return matrix;
}

}  // namespace hadal
