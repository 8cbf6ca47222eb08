#include <algorithm>

#include "base/check.h"
#include "quant/blocks_internal.h"
#include "quant/pack_internal.h"
#include "quant/panel.h"

namespace hadal {
namespace {

using quant_internal::FloatOffset;
using quant_internal::Load;

struct Scale {
  float d = 0;
  float m = 0;
};

Scale ReadScale(const PanelFormat& format, const ChunkLayout& layout, const std::byte* chunk,
                uint32_t group, uint32_t r) {
  const uint32_t slot = group * kPanelRows + r;
  switch (format.scales) {
    case ScaleKind::kF16:
      return {F16ToF32(Load<uint16_t>(chunk + layout.d_at + 2 * slot)),
              format.has_min ? F16ToF32(Load<uint16_t>(chunk + layout.m_at + 2 * slot)) : 0};
    case ScaleKind::kF32:
      return {Load<float>(chunk + layout.d_at + 4 * slot),
              format.has_min ? Load<float>(chunk + layout.m_at + 4 * slot) : 0};
    case ScaleKind::kSuper: {
      Scale scale;
      scale.d = F16ToF32(Load<uint16_t>(chunk + layout.d_at + 2 * r)) *
                static_cast<float>(Load<int8_t>(chunk + layout.scale_at + slot));
      if (format.has_min) {
        scale.m = -(F16ToF32(Load<uint16_t>(chunk + layout.m_at + 2 * r)) *
                    static_cast<float>(Load<uint8_t>(chunk + layout.min_at + slot)));
      }
      return scale;
    }
    case ScaleKind::kNone:
      break;
  }
  HADAL_CHECK(false);
  return {};
}

// The 32 integers of one unit and row.
void ReadUnit(PanelKind kind, const std::byte* unit, uint32_t r, int* u) {
  for (uint32_t k = 0; k < kUnitCols; ++k) {
    if (kind == PanelKind::kP8) {
      u[k] = static_cast<int>(unit[k / 4 * 64 + r * 4 + k % 4]);
    } else {
      const int byte = static_cast<int>(unit[k % 16 / 4 * 64 + r * 4 + k % 4]);
      u[k] = k < 16 ? byte & 15 : byte >> 4;
    }
  }
}

// Up to 32 values from column `first` (a multiple of 32) on.
void ReadIntegers(const PanelMatrix& matrix, const std::byte* panel, uint64_t first, uint32_t r,
                  uint32_t n, float* values) {
  const PanelFormat& format = matrix.format();
  const ChunkLayout& layout = matrix.chunk();
  const std::byte* chunk = panel + first / layout.cols * layout.bytes;
  const auto in_chunk = static_cast<uint32_t>(first % layout.cols);
  int u[kUnitCols];
  ReadUnit(format.kind, chunk + layout.weights_at + in_chunk / kUnitCols * layout.unit_bytes, r, u);
  Scale scale;
  for (uint32_t k = 0; k < n; ++k) {
    if (k == 0 || k % format.group == 0) {
      scale = ReadScale(format, layout, chunk, (in_chunk + k) / format.group, r);
    }
    values[k] = format.has_min ? scale.d * static_cast<float>(u[k]) + scale.m
                               : scale.d * static_cast<float>(u[k] - format.zero_point);
  }
}

float ReadFloat(PanelKind kind, const std::byte* panel, uint64_t k, uint32_t r) {
  const std::byte* at = panel + FloatOffset(kind, k, r);
  switch (kind) {
    case PanelKind::kF32:
      return Load<float>(at);
    case PanelKind::kF16:
      return F16ToF32(Load<uint16_t>(at));
    default:
      return Bf16ToF32(Load<uint16_t>(at));
  }
}

}  // namespace

void UnpackRow(const PanelMatrix& matrix, uint64_t row, std::span<float> out) {
  HADAL_CHECK(row < matrix.rows() && out.size() == matrix.cols());
  const std::byte* panel = matrix.panel(row / kPanelRows);
  const auto r = static_cast<uint32_t>(row % kPanelRows);
  const PanelFormat& format = matrix.format();
  const std::span<const uint32_t> order = matrix.column_permutation();
  float values[kUnitCols];
  for (uint64_t first = 0; first < matrix.cols(); first += kUnitCols) {
    const auto n = static_cast<uint32_t>(std::min<uint64_t>(kUnitCols, matrix.cols() - first));
    if (format.scales == ScaleKind::kNone) {
      for (uint32_t k = 0; k < n; ++k) values[k] = ReadFloat(format.kind, panel, first + k, r);
    } else {
      ReadIntegers(matrix, panel, first, r, n, values);
    }
    for (uint32_t k = 0; k < n; ++k) {
      const uint64_t column = first + k;
      if (format.scale_block != 0) {
        values[k] *= matrix.BlockScales(row / kPanelRows)[column / format.scale_block];
      }
      out[order.empty() ? column : order[column]] = values[k];
    }
  }
}

}  // namespace hadal
