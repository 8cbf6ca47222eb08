// Matrix products on packed weights: out[i][j] = sum over k of x[i][k] * W[j][k] (+ bias[j]).
//
// Activations are first prepared into the form that the weight's panel format asks for, once for
// all weights of the same form:
//   kF32    the f32 rows themselves
//   kInt8   per row and group of G columns: scale = max |x| / 127, q = round(x * (127 / max)) to
//           nearest even. A non-finite x makes the group's scale NaN, so that it is not lost.
//   kBf16   the nearest bf16 of every x: errs by 2^-9 of x
//   kBf16Pair  per row the nearest bf16 of every x, then of what that lost: errs by 2^-17 of x
//
// Every element is reduced in one order, whatever the number of rows, panels or threads:
//   integers   group by group, columns ascending; the dot product of a group is exact in int32
//              (the zero point included), then acc = fma(float(dot), d * scale, acc) and, with a
//              minimum, acc = fma(m, scale * sum(q), acc)
//   floats     acc = fma(w, x, acc) for columns ascending, w widened to f32. With block scales,
//              block by block: the sum of the block from zero, then acc = fma(sum, scale, acc).
//   bf16       two columns at a time, as the instruction does it ("VDPBF16PS" there)
//   pairs      32 columns at a time, as the tile instruction does it (Intel's manual, "TDPBF16PS"):
//              the products of the nearest values, then the others'.
// `fma` is fused but for the portable level. The bias is added last.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"
#include "quant/panel.h"

namespace hadal {

enum class ActivationKind : uint8_t { kF32, kInt8, kBf16, kBf16Pair };

// What prepared activations look like; weights with equal forms share them.
struct ActivationForm {
  ActivationKind kind = ActivationKind::kF32;
  uint16_t group = 0;      // kInt8: columns per scale
  bool has_min = false;    // kInt8: the third array holds scale * sum(q), f32 ...
  uint8_t zero_point = 0;  // ... or -zero_point * sum(q), i32

  friend bool operator==(const ActivationForm&, const ActivationForm&) = default;
};

// Columns of a kBf16Pair whose nearest values lie together, with the others behind them.
inline constexpr uint32_t kBf16PairBlock = 32;

// Bytes of one prepared row: values, then (kInt8) f32 scales and the third array, one per group; or
// (kBf16Pair) blocks of pairs.
struct ActivationLayout {
  uint32_t cols = 0;         // as given
  uint32_t padded_cols = 0;  // values held; those beyond cols are zero
  uint32_t scale_at = 0;
  uint32_t sum_at = 0;
  uint32_t row_bytes = 0;  // a multiple of 64, and not of 4096 (rows would share cache sets)
};

// kF32 takes no preparation: row_bytes is 0.
ActivationLayout LayoutFor(const ActivationForm& form, uint32_t cols);

// Prepares one row of x into `out` (64-byte aligned).
struct PrepareRow {
  const float* x = nullptr;
  std::byte* out = nullptr;
  ActivationForm form;
  ActivationLayout layout;
};

// A block of rows times a run of panels.
struct LinearTask {
  // weights: the panels to multiply with
  const std::byte* panels = nullptr;
  uint64_t panel_bytes = 0;
  uint32_t n_panels = 0;
  uint32_t cols = 0;
  uint32_t chunks = 0;       // per panel
  uint32_t scale_block = 0;  // the panel's block scales follow its chunks; 0: none
  // activations: row i is rows + i * row_bytes
  const std::byte* rows = nullptr;
  uint64_t row_bytes = 0;
  uint32_t scale_at = 0;
  uint32_t sum_at = 0;
  uint32_t n_rows = 0;
  // out[i][j], j < out_cols <= 16 * n_panels
  float* out = nullptr;
  uint64_t out_stride = 0;  // in floats
  uint32_t out_cols = 0;
  const float* bias = nullptr;  // of the first output column, or null
};

// The panels of a task, which pass through the processor once however many rows there are.
inline uint64_t BytesMoved(const PanelFormat& /*format*/, const LinearTask& task) {
  return task.n_panels * task.panel_bytes;
}

struct LinearKernels {
  Kernel<void(const PrepareRow& row)> prepare;
  Kernel<void(const PanelFormat& format, const LinearTask& task)> linear;
  // What BF16 panels without block scales want: kF32, kBf16 or kBf16Pair.
  ActivationKind bf16_rows = ActivationKind::kF32;
};

// The form of activations that these kernels want for such weights.
ActivationForm FormFor(const LinearKernels& kernels, const PanelFormat& format);
// No form that they want takes more for a row of `cols`.
uint32_t MaxActivationRowBytes(const LinearKernels& kernels, uint32_t cols);

}  // namespace hadal
