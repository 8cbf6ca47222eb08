// The meaning of every weight type: scalar decoding of blocks and rows. Kernels, panels and
// converters are held to these functions bit for bit.
//
// Layouts of the block types are those of GGUF files (little-endian, blocks back to back along a
// row). All of them decode to unsigned integers u with a scale per group of columns:
//
//   without a minimum   value = d * (u - zero_point)
//   with a minimum      value = d * u + m
//
//   type     block layout (bytes)                             group  zero  integers
//   q8_0     f16 d; i8 q[32]                                    32   128   u = q + 128
//   q4_0     f16 d; u8 qs[16]                                   32     8   u = nibble
//   q4_1     f16 d; f16 m; u8 qs[16]                            32   min   u = nibble
//   q5_0     f16 d; u32 qh; u8 qs[16]                           32   128   u = 5 bits - 16 + 128
//   q5_1     f16 d; f16 m; u32 qh; u8 qs[16]                    32   min   u = 5 bits
//   q2_k     u8 scales[16]; u8 qs[64]; f16 d; f16 dmin          16   min   u = 2 bits
//   q3_k     u8 hmask[32]; u8 qs[64]; u8 scales[12]; f16 d      16     4   u = 3 bits
//   q4_k     f16 d; f16 dmin; u8 scales[12]; u8 qs[128]         32   min   u = nibble
//   q5_k     f16 d; f16 dmin; u8 scales[12]; u8 qh[32]; qs[128] 32   min   u = 5 bits
//   q6_k     u8 ql[128]; u8 qh[64]; i8 scales[16]; f16 d        16   128   u = 6 bits - 32 + 128
//   iq4_nl   f16 d; u8 qs[16]                                   32   128   u = code book + 128
//   iq4_xs   f16 d; u16 scales_h; u8 scales_l[4]; u8 qs[128]    32   128   u = code book + 128
//   mxfp4    u8 e; u8 qs[16]   (d = 2^(e-128))                  32   128   u = 2 * e2m1 + 128
//
// In blocks of 32, the low nibbles are columns 0..15 and the high nibbles columns 16..31.
// "k" types and iq4_xs have blocks of 256 columns with d = D * scale and m = -(Dmin * min), where
// scale and min are small integers (kept as integers in panels, see ScaleKind::kSuper). Every such
// product is exact in f32.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tensor/tensor_view.h"

namespace hadal {

static_assert(std::endian::native == std::endian::little,
              "checkpoints are little-endian and are read in place");

inline constexpr uint32_t kMaxBlock = 256;
inline constexpr uint32_t kMaxGroups = 16;

// How the scales of an integer format are kept.
enum class ScaleKind : uint8_t {
  kNone,   // plain floats
  kF16,    // an f16 d (and m) per group
  kF32,    // an f32 d (and m) per group
  kSuper,  // per 256 columns f16 D (and Dmin); per group an i8 scale (and a u8 min):
           // d = D * scale, m = -(Dmin * min)
};

// One decoded block. `u` has block entries; the others one entry per group.
struct BlockCodes {
  uint8_t u[kMaxBlock];
  float d[kMaxGroups];
  float m[kMaxGroups];  // 0 without a minimum
  // The scales as stored, for packing without loss. Meaningful by ScaleKind:
  uint16_t d16;  // kF16: d; kSuper: D
  uint16_t m16;  // kF16: m; kSuper: Dmin
  int8_t scale[kMaxGroups];
  uint8_t min[kMaxGroups];
};

struct BlockType {
  DType type;
  uint16_t block;  // columns per block
  uint16_t group;  // columns per scale
  bool has_min;
  uint8_t zero_point;  // of u, without a minimum
  uint8_t bits;        // of u: 4 when every u fits a nibble, else 8
  ScaleKind scales;
  void (*decode)(const std::byte* block, BlockCodes& out);  // `block` may be unaligned
};

// The block types of GGUF; nullptr for plain and composite types.
const BlockType* FindBlockType(DType type);

// Writes the `type.block` values of the block at `data`.
void DequantizeBlock(const BlockType& type, const std::byte* data, float* out);

// Checks that the sizes of all parts of the view agree with its type and shape, without reading
// them. Throws Error(kBadFile | kUnsupported) naming the tensor. The other functions call it.
void CheckTensorParts(const TensorView& view);

// Writes rows [first_row, first_row + n_rows) as f32, row-major [n_rows, cols]. Requires the rows
// to exist and out.size() == n_rows * cols. Non-finite scales and values pass through. Throws
// Error(kUnsupported) for integer tensors, and as CheckTensorParts. Thread-safe.
void DequantizeRows(const TensorView& view, uint64_t first_row, uint64_t n_rows,
                    std::span<float> out);

struct NonFinite {
  uint64_t row = 0;
  uint64_t block = 0;  // block (plain floats: column; f8: scale block or column; int4: group)
  bool is_scale = true;
};

// The first non-finite scale (plain floats and f8: also value) in the given rows, so that loading
// can refuse it. Reads every block of these rows.
std::optional<NonFinite> FindNonFinite(const TensorView& view, uint64_t first_row, uint64_t n_rows);

// The view of rows [first_row, first_row + n_rows) of a matrix (experts stacked in one tensor, for
// example), as shape [n_rows, cols]. Plain and block types; f8 only where first_row is a multiple
// of the scale block. Composite int4 is refused with Error(kUnsupported).
TensorView RowRange(const TensorView& view, uint64_t first_row, uint64_t n_rows);

}  // namespace hadal
