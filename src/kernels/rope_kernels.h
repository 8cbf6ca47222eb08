#pragma once

#include <cstdint>

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
  void (*rotate_half_split)(const RotateArgs& args) = nullptr;
  void (*rotate_interleaved)(const RotateArgs& args) = nullptr;
};

}  // namespace hadal
