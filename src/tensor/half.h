// Scalar conversions between f32 and the 16- and 8-bit floats. Exact in the widening direction,
// round-to-nearest-even in the narrowing one. These are the definition; kernels must agree.
#pragma once

#include <bit>
#include <cstdint>

namespace hadal {

inline float Bf16ToF32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t F32ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40);  // NaN
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

inline float F16ToF32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 0x1F;
  const uint32_t mantissa = bits & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000 | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // zero or subnormal: exact
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

inline uint16_t F32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return sign | 0x7E00 | static_cast<uint16_t>(magnitude >> 13 & 0x1FF);
  if (magnitude >= 0x477FF000) return sign | 0x7C00;              // rounds to infinity
  if (magnitude < 0x38800000) {                                   // subnormal in f16
    const float scaled = std::bit_cast<float>(magnitude) + 0.5f;  // rounds at 2^-24
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(scaled) - 0x3F000000);
  }
  const uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
  return sign | static_cast<uint16_t>((rounded >> 13) - (112 << 10));
}

// OCP FP8 E4M3 (no infinity, 0x7F and 0xFF are NaN), as in DeepSeek-V3's checkpoints.
inline float F8E4M3ToF32(uint8_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80) << 24;
  const uint32_t exponent = bits >> 3 & 0xF;
  const uint32_t mantissa = bits & 7;
  if (exponent == 0xF && mantissa == 7) return std::bit_cast<float>(sign | 0x7FC00000);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 120) << 23 | mantissa << 20);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

// Beyond the largest finite value, 448, it saturates; NaN stays NaN.
inline uint8_t F32ToF8E4M3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint8_t>(bits >> 24 & 0x80);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return sign | 0x7F;
  if (magnitude >= 0x43E00000) return sign | 0x7E;                   // 448
  if (magnitude < 0x3C800000) {                                      // subnormal: below 2^-6
    const float scaled = std::bit_cast<float>(magnitude) + 0x1p14f;  // rounds at 2^-9
    return sign | static_cast<uint8_t>(std::bit_cast<uint32_t>(scaled) - 0x46800000);
  }
  const uint32_t rounded = magnitude + 0x7FFFF + (magnitude >> 20 & 1);
  return sign | static_cast<uint8_t>((rounded >> 20) - (120 << 3));
}

}  // namespace hadal
