#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace hadal {

// Rotates pairs of `heads` vectors that lie `head_stride` floats apart:
// (a, b) -> (a cos - b sin, b cos + a sin), pairs (i, i + half) or (2i, 2i + 1).
struct RotateArgs {
  float* x = nullptr;
  uint32_t heads = 0;
  uint32_t head_stride = 0;
  uint32_t half = 0;  // pairs per head
  const float* cos = nullptr;
  const float* sin = nullptr;
};

struct RopeKernels {
  Kernel<void(const RotateArgs& args)> rotate_half_split;
  Kernel<void(const RotateArgs& args)> rotate_interleaved;
};

}  // namespace hadal
