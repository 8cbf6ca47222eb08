// Panels: the few forms in which weights lie in memory and which kernels read.
//
// A weight matrix [rows, cols] computes y = W x; rows are outputs, columns the reduction (K).
// A panel is 16 consecutive rows, interleaved so that one 64-byte load feeds 16 outputs. Panels lie
// one after another; a panel is a run of equal chunks over increasing columns, so that a
// matrix-vector product streams one contiguous region:
//
//   panel p          at panel(p) = data + p * panel_bytes       rows 16p .. 16p+15
//   chunk i of it    at panel(p) + i * chunk.bytes              columns i*chunk.cols ..
//
// Everything is 64-byte aligned (chunk.bytes is a multiple of 64). Rows beyond `rows` are zero
// bytes. Columns beyond `cols`, up to padded_cols, hold finite values that need not be zero: the
// activations there must be zero.
//
// Plain floats (ScaleKind::kNone), lane r = row 16p + r:
//   kF32    chunk = 1 column:  f32  [16]
//   kF16    chunk = 2 columns: f16  [2][16]
//   kBF16   chunk = 2 columns: bf16 [16][2]     (the order of vdpbf16ps: lane r holds k and k + 1)
//
// Integers: a chunk is a header with the scales of its groups, then its weights in units of 32
// columns, the same whatever the group size. k counts from the unit's first column, all integers
// are unsigned:
//   kP8     512 bytes: u8 [8][16][4]            byte [q][r][j] = row r, column 4q + j
//   kP4     256 bytes: u8 [4][16][4]            byte [q][r][j]: low nibble = column 4q + j,
//                                               high nibble = column 16 + 4q + j
// so vectors q of kP8, and (v & 0x0F) of vector q and (v >> 4) & 0x0F of the same vector of kP4,
// are unsigned operands of vpdpbusd. (With groups of 16, low nibbles are one group and high nibbles
// the next.) The value of an integer u in group g of row r:
//
//   without a minimum   d[g][r] * (u - zero_point)      zero_point: 128 (kP8); 8 or 4 (kP4)
//   with a minimum      d[g][r] * u + m[g][r]
//
// Headers, for g = group within the chunk and r = row within the panel (offsets in ChunkLayout):
//   kF16    f16 d[groups][16]; with a minimum f16 m[groups][16]
//   kF32    f32 d[groups][16]; with a minimum f32 m[groups][16]
//   kSuper  f16 D[16]; with a minimum f16 Dmin[16]; i8 scale[groups][16]; with a minimum
//           u8 min[groups][16];  padded to 64.  d = D * scale, m = -(Dmin * min); the products are
//           exact in f32.
//
//   format                                chunk    header  groups  bytes   bits per weight
//   kP8 kF16  group 32                    64 cols      64       2   1088    8.5
//   kP8 kF16  group 32, minimum           32 cols      64       1    576    9
//   kP8 kF32  group 32                    32 cols      64       1    576    9
//   kP8 kSuper group 16                  256 cols     320      16   4416    8.625
//   kP8 kSuper group 32                  256 cols     192       8   4288    8.375
//   kP8 kSuper group 32, minimum         256 cols     320       8   4416    8.625
//   kP4 kF16  group 32                    64 cols      64       2    576    4.5
//   kP4 kF16  group 32, minimum           32 cols      64       1    320    5
//   kP4 kF32  group 32, minimum           32 cols     128       1    384    6
//   kP4 kF32  group 128, minimum         128 cols     128       1   1152    4.5
//   kP4 kSuper group 16                  256 cols     320      16   2368    4.625
//   kP4 kSuper group 16, minimum         256 cols     576      16   2624    5.125
//   kP4 kSuper group 32, minimum         256 cols     320       8   2368    4.625
//
// FP8 with block scales (DeepSeek-V3) is kBF16, exact, with scale_block != 0: the true value is
// the bf16 value times BlockScales(p)[k / scale_block]. A panel lies in one row of scale blocks, so
// each panel keeps its own copy of that row, f32 [ceil(cols / scale_block)] padded to 64 bytes,
// behind its chunks.
//
// GPTQ matrices with desc_act have `permuted` set: packed column k is column_permutation()[k] of
// the matrix, so activations are gathered by it (or x is permuted once) before the product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/align.h"
#include "quant/blocks.h"
#include "quant/panel_arena.h"
#include "quant/weight_policy.h"
#include "tensor/tensor_view.h"

namespace hadal {

inline constexpr uint32_t kPanelRows = 16;
inline constexpr uint32_t kPanelAlignment = 64;
inline constexpr uint32_t kUnitCols = 32;  // columns of an integer unit

// Packed weights outlive the program in files. To be raised with every change of the bytes that a
// tensor is packed into: of the layouts above, of ChooseFormat, of how weights are quantized anew.
inline constexpr uint32_t kPackingVersion = 1;

enum class PanelKind : uint8_t { kF32, kF16, kBF16, kP8, kP4 };

struct PanelFormat {
  PanelKind kind = PanelKind::kF32;
  ScaleKind scales = ScaleKind::kNone;
  uint16_t group = 0;        // columns per scale; 0 for plain floats
  bool has_min = false;      // value = d*u + m instead of d*(u - zero_point)
  uint8_t zero_point = 0;    // without a minimum
  bool permuted = false;     // column_permutation() applies
  uint32_t scale_block = 0;  // kBF16 from FP8: side of the square that shares a scale

  friend bool operator==(const PanelFormat&, const PanelFormat&) = default;
};

// Offsets are from the chunk's first byte. Usable at compile time, for kernel templates.
struct ChunkLayout {
  uint32_t cols = 0;      // columns per chunk
  uint32_t groups = 0;    // scale groups per chunk; 0 for plain floats
  uint32_t d_at = 0;      // d, or D with kSuper
  uint32_t m_at = 0;      // m, or Dmin with kSuper
  uint32_t scale_at = 0;  // kSuper: i8 scale[groups][16]
  uint32_t min_at = 0;    // kSuper: u8 min[groups][16]
  uint32_t weights_at = 0;
  uint32_t unit_bytes = 0;  // weights of 32 columns: 512 (kP8), 256 (kP4); 0 for plain floats
  uint32_t bytes = 0;
};

constexpr ChunkLayout LayoutOf(const PanelFormat& format) {
  ChunkLayout chunk;
  if (format.scales == ScaleKind::kNone) {
    chunk.cols = format.kind == PanelKind::kF32 ? 1 : 2;
    chunk.bytes = kPanelAlignment;
    return chunk;
  }
  uint32_t header = 0;
  if (format.scales == ScaleKind::kSuper) {
    chunk.cols = 256;
    chunk.groups = chunk.cols / format.group;
    chunk.m_at = 2 * kPanelRows;
    chunk.scale_at = (format.has_min ? 4 : 2) * kPanelRows;
    chunk.min_at = chunk.scale_at + chunk.groups * kPanelRows;
    header = chunk.min_at + (format.has_min ? chunk.groups * kPanelRows : 0);
  } else {
    const uint32_t scale_bytes = format.scales == ScaleKind::kF16 ? 2 : 4;
    // Two groups share a header where one would leave half a cache line empty.
    chunk.groups = format.scales == ScaleKind::kF16 && !format.has_min ? 2 : 1;
    chunk.cols = chunk.groups * format.group;
    chunk.m_at = chunk.groups * kPanelRows * scale_bytes;
    header = chunk.m_at * (format.has_min ? 2 : 1);
  }
  chunk.weights_at = static_cast<uint32_t>(AlignUp(header, kPanelAlignment));
  chunk.unit_bytes = kUnitCols * kPanelRows / (format.kind == PanelKind::kP4 ? 2 : 1);
  chunk.bytes = chunk.weights_at + chunk.cols / kUnitCols * chunk.unit_bytes;
  return chunk;
}

// The format a weight is packed into: exact with kAsStored and kF32. kQ8 and kQ4 quantize anew like
// q8_0 and q4_0, except that types which have that panel format already stay exact. Reads only the
// view's type, sizes and which parts it has (group_size, scale_block, presence of group_index),
// never its data. Throws Error(kUnsupported) for types that cannot be weights, int4 groups that are
// no multiple of 32, and FP8 blocks that are no multiple of 16.
PanelFormat ChooseFormat(const TensorView& view, WeightPolicy policy);

// Exact bytes of a PanelMatrix of this shape: panels and column permutation.
// Throws Error(kUnsupported) when they do not fit 63 bits.
uint64_t PanelBytes(uint64_t rows, uint64_t cols, const PanelFormat& format);

// Move-only owner of packed weights: one region of PanelBytes(), zeroed, 64-byte aligned.
// Thread-safe to read, and to write to different panels.
class PanelMatrix {
 public:
  PanelMatrix() = default;
  // Throws Error(kResource) when memory is short.
  PanelMatrix(uint64_t rows, uint64_t cols, const PanelFormat& format, PanelArena& arena);
  PanelMatrix(PanelMatrix&&) noexcept = default;
  PanelMatrix& operator=(PanelMatrix&&) noexcept = default;

  uint64_t rows() const { return rows_; }
  uint64_t cols() const { return cols_; }
  const PanelFormat& format() const { return format_; }
  const ChunkLayout& chunk() const { return chunk_; }
  uint64_t panels() const { return panels_; }
  uint64_t chunks() const { return chunks_; }  // per panel
  uint64_t padded_cols() const { return chunks_ * chunk_.cols; }
  uint64_t panel_bytes() const { return panel_bytes_; }
  uint64_t bytes() const { return bytes_; }
  bool empty() const { return data_ == nullptr; }

  // All of it: panels and column permutation. The same bytes in a matrix of the same shape and
  // format are the same matrix.
  std::span<const std::byte> contents() const { return {data_.get(), bytes()}; }
  std::span<std::byte> mutable_contents() { return {data_.get(), bytes()}; }

  const std::byte* panel(uint64_t p) const { return data_.get() + p * panel_bytes_; }
  std::byte* mutable_panel(uint64_t p) { return data_.get() + p * panel_bytes_; }

  // FP8: the scales f32 [ceil(cols / scale_block)] of the panel.
  const float* BlockScales(uint64_t p) const;
  float* MutableBlockScales(uint64_t p);

  // Permuted matrices: [cols] source columns in packed order; else empty.
  std::span<const uint32_t> column_permutation() const;
  std::span<uint32_t> mutable_column_permutation();

 private:
  uint64_t rows_ = 0;
  uint64_t cols_ = 0;
  PanelFormat format_;
  ChunkLayout chunk_;
  uint64_t panels_ = 0;
  uint64_t chunks_ = 0;
  uint64_t panel_bytes_ = 0;
  uint64_t bytes_ = 0;
  std::shared_ptr<std::byte> data_;  // a part of an arena's mapping, which it keeps
};

// Packs panels [first_panel, first_panel + n_panels) of the view into the same panels of `out`,
// counted from `panel_offset` on. The view's columns must be those of `out` and the format of `out`
// must come from ChooseFormat for it. Different panels may be packed by different threads at once.
//
// With an offset, several matrices are stacked in one (experts: matrix e at e * ceil(rows / 16), in
// a PanelMatrix of experts * ceil(rows / 16) * 16 rows). Permuted matrices cannot be stacked.
//
// Throws as CheckTensorParts; Error(kNumeric) when a weight that is to be quantized anew is not
// finite.
void PackPanels(const TensorView& view, PanelMatrix& out, uint64_t first_panel, uint64_t n_panels,
                uint64_t panel_offset = 0);

// Allocates and packs the whole matrix in the calling thread.
PanelMatrix Pack(const TensorView& view, WeightPolicy policy = WeightPolicy::kAsStored);

// Writes one row (out.size() == cols, in the matrix's own column order). For exact formats this is
// what DequantizeRows gives for the source, bit for bit. Thread-safe.
void UnpackRow(const PanelMatrix& matrix, uint64_t row, std::span<float> out);

}  // namespace hadal
