// Block quantizers, one per type: 32 or 256 finite values in, one block out.
#pragma once

#include <cmath>
#include <cstddef>

#include "quant/blocks_internal.h"

namespace hadal::quant_internal {

// Truncates like a C cast, but defined for every input: outside the range it saturates, and NaN
// (from a scale that underflowed) is the lower end.
inline int Truncate(float x, int low, int high) {
  if (!(x > static_cast<float>(low))) return low;
  if (x >= static_cast<float>(high)) return high;
  return static_cast<int>(x);
}

// Rounds half away from zero, saturating.
inline int Round(float x, int low, int high) {
  return Truncate(std::round(x), low, high);
}

inline float Inverse(float d) {
  return d == 0.0f ? 0.0f : 1.0f / d;
}

void EncodeQ8_0(const float* x, std::byte* block);
void EncodeQ4_0(const float* x, std::byte* block);
void EncodeQ4_1(const float* x, std::byte* block);
void EncodeQ5_0(const float* x, std::byte* block);
void EncodeQ5_1(const float* x, std::byte* block);
void EncodeQ2K(const float* x, std::byte* block);
void EncodeQ3K(const float* x, std::byte* block);
void EncodeQ4K(const float* x, std::byte* block);
void EncodeQ5K(const float* x, std::byte* block);
void EncodeQ6K(const float* x, std::byte* block);
void EncodeIq4Nl(const float* x, std::byte* block);
void EncodeIq4Xs(const float* x, std::byte* block);
void EncodeMxfp4(const float* x, std::byte* block);

}  // namespace hadal::quant_internal
