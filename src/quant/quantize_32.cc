// Blocks of 32 columns. The scale used for rounding is the f32 one, as in GGUF's reference.
#include <algorithm>

#include "quant/quantize_internal.h"

namespace hadal::quant_internal {
namespace {

// The value of largest magnitude, sign kept; the first of equals.
float Extreme(const float* x, int n) {
  float extreme = 0;
  for (int i = 0; i < n; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  return extreme;
}

void StoreNibbles(const uint8_t* q, std::byte* qs) {
  for (int i = 0; i < 16; ++i) qs[i] = static_cast<std::byte>((q[i] & 15) | (q[i + 16] & 15) << 4);
}

void StoreFifthBits(const uint8_t* q, std::byte* qh) {
  uint32_t high = 0;
  for (int i = 0; i < 32; ++i) high |= static_cast<uint32_t>(q[i] >> 4) << i;
  Store(qh, high);
}

// q4_0 and q5_0: the extreme becomes the most negative integer, -2^(bits-1).
void Symmetric(const float* x, int half, std::byte* d_at, uint8_t* q) {
  const float d = Extreme(x, 32) / static_cast<float>(-half);
  const float inverse = Inverse(d);
  Store(d_at, F32ToF16(d));
  for (int i = 0; i < 32; ++i) {
    const float shifted = x[i] * inverse + (static_cast<float>(half) + 0.5f);
    q[i] = static_cast<uint8_t>(Truncate(shifted, 0, 2 * half - 1));
  }
}

// q4_1 and q5_1: the range is divided into `steps`.
void Asymmetric(const float* x, int steps, std::byte* d_at, uint8_t* q) {
  const auto [low, high] = std::minmax_element(x, x + 32);
  const float d = (*high - *low) / static_cast<float>(steps);
  const float inverse = Inverse(d);
  Store(d_at, F32ToF16(d));
  Store(d_at + 2, F32ToF16(*low));
  for (int i = 0; i < 32; ++i) {
    q[i] = static_cast<uint8_t>(Truncate((x[i] - *low) * inverse + 0.5f, 0, steps));
  }
}

}  // namespace

void EncodeQ8_0(const float* x, std::byte* block) {
  const float d = std::fabs(Extreme(x, 32)) / 127.0f;
  const float inverse = Inverse(d);
  Store(block, F32ToF16(d));
  for (int i = 0; i < 32; ++i) {
    Store(block + 2 + i, static_cast<int8_t>(Round(x[i] * inverse, -127, 127)));
  }
}

void EncodeQ4_0(const float* x, std::byte* block) {
  uint8_t q[32];
  Symmetric(x, 8, block, q);
  StoreNibbles(q, block + 2);
}

void EncodeQ4_1(const float* x, std::byte* block) {
  uint8_t q[32];
  Asymmetric(x, 15, block, q);
  StoreNibbles(q, block + 4);
}

void EncodeQ5_0(const float* x, std::byte* block) {
  uint8_t q[32];
  Symmetric(x, 16, block, q);
  StoreFifthBits(q, block + 2);
  StoreNibbles(q, block + 6);
}

void EncodeQ5_1(const float* x, std::byte* block) {
  uint8_t q[32];
  Asymmetric(x, 31, block, q);
  StoreFifthBits(q, block + 4);
  StoreNibbles(q, block + 8);
}

namespace {

// The first nearest of ascending values.
template <size_t kSize>
uint8_t Nearest(const int8_t* ascending, float x) {
  int index = 0;
  for (size_t i = 0; i + 1 < kSize; ++i) {
    index += x > 0.5f * static_cast<float>(ascending[i] + ascending[i + 1]);
  }
  return static_cast<uint8_t>(index);
}

void NearestIq4(const float* x, float d, std::byte* qs) {
  const float inverse = Inverse(d);
  uint8_t q[32];
  for (int i = 0; i < 32; ++i) q[i] = Nearest<16>(kIq4Values, x[i] * inverse);
  StoreNibbles(q, qs);
}

}  // namespace

void EncodeIq4Nl(const float* x, std::byte* block) {
  // The extreme becomes -127, the code book's longest arm. d as stored, so the codes are nearest.
  const uint16_t d = F32ToF16(Extreme(x, 32) / -127.0f);
  Store(block, d);
  NearestIq4(x, F16ToF32(d), block + 2);
}

void EncodeIq4Xs(const float* x, std::byte* block) {
  float wanted[8];
  float largest = 0;
  for (int g = 0; g < 8; ++g) {
    wanted[g] = Extreme(x + 32 * g, 32) / -127.0f;
    largest = std::max(largest, std::fabs(wanted[g]));
  }
  const uint16_t d16 = F32ToF16(largest / 31.0f);
  const float d = F16ToF32(d16);
  uint32_t high = 0;
  Store(block, d16);
  for (int g = 0; g < 8; ++g) {
    const int scale = Round(wanted[g] * Inverse(d), -32, 31);
    const int stored = scale + 32;
    high |= static_cast<uint32_t>(stored >> 4) << (2 * g);
    const int low = g % 2 == 0 ? stored & 15 : U8(block + 4 + g / 2) | (stored & 15) << 4;
    block[4 + g / 2] = static_cast<std::byte>(low);
    NearestIq4(x + 32 * g, d * static_cast<float>(scale), block + 8 + 16 * g);
  }
  Store(block + 2, static_cast<uint16_t>(high));
}

void EncodeMxfp4(const float* x, std::byte* block) {
  // e2m1's largest power of two is 4, so the exponent is that of the extreme less 2 (OCP MX 1.0).
  const float extreme = std::fabs(Extreme(x, 32));
  const int exponent = extreme == 0.0f ? -127 : std::ilogb(extreme) - 2;
  const int e = std::clamp(exponent + 127, 0, 254);
  block[0] = static_cast<std::byte>(e);
  const float inverse = Inverse(E8M0Half(static_cast<uint8_t>(e)));
  uint8_t q[32];
  for (int i = 0; i < 32; ++i) {
    q[i] = Nearest<8>(kFp4Values, std::fabs(x[i] * inverse));
    if (x[i] < 0 && q[i] != 0) q[i] |= 8;
  }
  StoreNibbles(q, block + 1);
}

}  // namespace hadal::quant_internal
