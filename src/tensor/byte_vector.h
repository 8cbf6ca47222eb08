// Vectors kept as one byte per element and one f32 scale: the definition of the KV cache's 8-bit
// types, which kernels must meet bit for bit.
//
//   scale = max |x| / largest          inverse = largest / max |x|       x' = code * scale
//   kI8       largest 127   code = x * inverse rounded to the nearest integer, ties to even
//   kF8E4M3   largest 448   code = x * inverse rounded to the nearest e4m3, ties to even; what
//   would
//                           be subnormal (below max |x| / 28672) becomes zero, so that kernels
//                           widen codes by one multiplication of normal numbers
// A vector with a NaN or an infinity gets the scale NaN and codes 0: every use of it is NaN, so
// that it is not lost. A vector whose largest magnitude is below kTinyVector is zero.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace hadal {

inline constexpr float kInt8Largest = 127.0f;
inline constexpr float kF8Largest = 448.0f;
inline constexpr float kTinyVector = 1e-30f;  // largest / max must not overflow

// Whether elements of this type come with a scale.
inline bool IsByteVectorType(DType type) {
  return type == DType::kI8 || type == DType::kF8E4M3;
}

// Writes x.size() codes and returns the scale. Requires IsByteVectorType(type).
float EncodeByteVector(std::span<const float> x, DType type, uint8_t* codes);

// A code without its scale, exact. Requires IsByteVectorType(type).
float DecodeByte(uint8_t code, DType type);

}  // namespace hadal
