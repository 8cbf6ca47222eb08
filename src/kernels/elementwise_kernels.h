// One row at a time; n elements. Sums run over 64 lanes in an order that depends on n alone.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace hadal {

struct RmsNormArgs {
  float* x = nullptr;
  const float* add = nullptr;  // or null; x += add first, in place
  const float* weight = nullptr;
  float eps = 0;
  uint32_t n = 0;
  float* out = nullptr;  // may be x
};

struct ElementwiseKernels {
  // out = x / sqrt(mean(x^2) + eps) * weight
  Kernel<void(const RmsNormArgs& args)> rms_norm;
  // out = silu(gate) * up; out may be either.
  Kernel<void(const float* gate, const float* up, uint32_t n, float* out)> glu;
  // x += sigmoid(*gate) * y, or x += y without a gate.
  Kernel<void(const float* y, const float* gate, uint32_t n, float* x)> add_scaled;
  // out = e^x; bounds: generic/elementwise_exp.inc. out may be x.
  Kernel<void(const float* x, uint32_t n, float* out)> exp;
  // *index = that of the largest value, the lowest on a tie; -1 where a value is not finite. n > 0.
  Kernel<void(const float* x, uint32_t n, int32_t* index)> argmax;
};

}  // namespace hadal
