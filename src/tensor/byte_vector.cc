#include "tensor/byte_vector.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "tensor/half.h"

namespace hadal {
namespace {

uint8_t Encode(float x, DType type) {
  if (type == DType::kI8) return static_cast<uint8_t>(static_cast<int>(std::nearbyint(x)));
  const uint8_t code = F32ToF8E4M3(x);
  return (code & 0x78) == 0 ? code & 0x80 : code;
}

}  // namespace

float EncodeByteVector(std::span<const float> x, DType type, uint8_t* codes) {
  HADAL_CHECK(IsByteVectorType(type));
  const float largest = type == DType::kI8 ? kInt8Largest : kF8Largest;
  float max = 0;
  bool finite = true;
  for (const float value : x) {
    finite = finite && std::isfinite(value);
    max = std::max(max, std::abs(value));
  }
  if (!finite || max < kTinyVector) {
    std::fill_n(codes, x.size(), uint8_t{0});
    return finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  const float inverse = largest / max;
  for (size_t i = 0; i < x.size(); ++i) codes[i] = Encode(x[i] * inverse, type);
  return max / largest;
}

float DecodeByte(uint8_t code, DType type) {
  HADAL_CHECK(IsByteVectorType(type));
  return type == DType::kI8 ? static_cast<float>(static_cast<int8_t>(code)) : F8E4M3ToF32(code);
}

}  // namespace hadal
