// One row at a time; n elements. Sums run over 64 lanes in an order that depends on n alone.
#pragma once

#include <cstdint>

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
  void (*rms_norm)(const RmsNormArgs& args) = nullptr;
  // out = silu(gate) * up; out may be either.
  void (*glu)(const float* gate, const float* up, uint32_t n, float* out) = nullptr;
  // x += sigmoid(*gate) * y, or x += y without a gate.
  void (*add_scaled)(const float* y, const float* gate, uint32_t n, float* x) = nullptr;
  // out = e^x; bounds: generic/elementwise_exp.inc. out may be x.
  void (*exp)(const float* x, uint32_t n, float* out) = nullptr;
  // The index of the largest value, the lowest on a tie; -1 where a value is not finite. n > 0.
  int32_t (*argmax)(const float* x, uint32_t n) = nullptr;
};

}  // namespace hadal
