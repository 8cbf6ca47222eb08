// q2_k .. q6_k: plain two-level scales, no search.
#include <algorithm>

#include "quant/quantize_internal.h"

namespace hadal::quant_internal {
namespace {

// Integers and scales of one block, before they are laid out.
struct Codes {
  uint16_t d = 0;
  uint16_t dmin = 0;
  int scale[16];
  int min[16];
  uint8_t q[256];  // with a minimum 0..steps; without, the integer plus its offset
};

// value = d*scale*q - dmin*min, q in 0..steps, scale and min in 0..limit.
Codes WithMinimum(const float* x, int group, int steps, int limit) {
  const int groups = 256 / group;
  float step[16];
  float low[16];
  float largest_step = 0;
  float largest_low = 0;
  for (int g = 0; g < groups; ++g) {
    const auto [min, max] = std::minmax_element(x + g * group, x + (g + 1) * group);
    low[g] = -std::min(*min, 0.0f);
    step[g] = (std::max(*max, 0.0f) + low[g]) / static_cast<float>(steps);
    largest_step = std::max(largest_step, step[g]);
    largest_low = std::max(largest_low, low[g]);
  }
  Codes codes;
  codes.d = F32ToF16(largest_step / static_cast<float>(limit));
  codes.dmin = F32ToF16(largest_low / static_cast<float>(limit));
  const float d = F16ToF32(codes.d);
  const float dmin = F16ToF32(codes.dmin);
  for (int g = 0; g < groups; ++g) {
    codes.scale[g] = Round(step[g] * Inverse(d), 0, limit);
    codes.min[g] = Round(low[g] * Inverse(dmin), 0, limit);
    const float inverse = Inverse(d * static_cast<float>(codes.scale[g]));
    const float offset = dmin * static_cast<float>(codes.min[g]);
    for (int i = g * group; i < (g + 1) * group; ++i) {
      codes.q[i] = static_cast<uint8_t>(Round((x[i] + offset) * inverse, 0, steps));
    }
  }
  return codes;
}

// value = d*scale*(q - half), groups of 16, q in 0..2*half-1, scale in -limit..limit-1.
Codes Symmetric16(const float* x, int half, int limit) {
  float wanted[16];
  float largest = 0;
  for (int g = 0; g < 16; ++g) {
    const float* end = x + 16 * (g + 1);
    const float extreme = *std::max_element(
        x + 16 * g, end, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
    wanted[g] = extreme / static_cast<float>(-half);
    largest = std::max(largest, std::fabs(wanted[g]));
  }
  Codes codes;
  codes.d = F32ToF16(largest / static_cast<float>(limit - 1));
  const float d = F16ToF32(codes.d);
  for (int g = 0; g < 16; ++g) {
    codes.scale[g] = Round(wanted[g] * Inverse(d), -limit, limit - 1);
    const float inverse = Inverse(d * static_cast<float>(codes.scale[g]));
    for (int i = 16 * g; i < 16 * (g + 1); ++i) {
      codes.q[i] = static_cast<uint8_t>(Round(x[i] * inverse, -half, half - 1) + half);
    }
  }
  return codes;
}

void Or(std::byte* at, int bits) {
  *at |= static_cast<std::byte>(bits);
}

// The inverse of the decoder's layout of 6-bit scales and minimums.
void StoreScales6(const Codes& codes, std::byte* at) {
  for (int i = 0; i < 4; ++i) {
    Or(at + i, codes.scale[i] | codes.scale[i + 4] >> 4 << 6);
    Or(at + 4 + i, codes.min[i] | codes.min[i + 4] >> 4 << 6);
    Or(at + 8 + i, (codes.scale[i + 4] & 15) | (codes.min[i + 4] & 15) << 4);
  }
}

void StoreNibbles256(const Codes& codes, std::byte* qs) {
  for (int i = 0; i < 256; ++i) {
    Or(qs + i / 64 * 32 + i % 32, (codes.q[i] & 15) << (i % 64 / 32 * 4));
  }
}

void StoreTwoBits(const Codes& codes, std::byte* qs) {
  for (int i = 0; i < 256; ++i) {
    Or(qs + i / 128 * 32 + i % 32, (codes.q[i] & 3) << (i % 128 / 32 * 2));
  }
}

}  // namespace

void EncodeQ2K(const float* x, std::byte* block) {
  const Codes codes = WithMinimum(x, 16, 3, 15);
  std::memset(block, 0, 84);
  for (int g = 0; g < 16; ++g) Or(block + g, codes.scale[g] | codes.min[g] << 4);
  StoreTwoBits(codes, block + 16);
  Store(block + 80, codes.d);
  Store(block + 82, codes.dmin);
}

void EncodeQ3K(const float* x, std::byte* block) {
  const Codes codes = Symmetric16(x, 4, 32);
  std::memset(block, 0, 110);
  for (int i = 0; i < 256; ++i) Or(block + i % 32, codes.q[i] >> 2 << (i / 32));
  StoreTwoBits(codes, block + 32);
  for (int g = 0; g < 16; ++g) {
    const int stored = codes.scale[g] + 32;
    Or(block + 96 + g % 8, (stored & 15) << (g / 8 * 4));
    Or(block + 104 + g % 4, stored >> 4 << (g / 4 * 2));
  }
  Store(block + 108, codes.d);
}

void EncodeQ4K(const float* x, std::byte* block) {
  const Codes codes = WithMinimum(x, 32, 15, 63);
  std::memset(block, 0, 144);
  Store(block, codes.d);
  Store(block + 2, codes.dmin);
  StoreScales6(codes, block + 4);
  StoreNibbles256(codes, block + 16);
}

void EncodeQ5K(const float* x, std::byte* block) {
  const Codes codes = WithMinimum(x, 32, 31, 63);
  std::memset(block, 0, 176);
  Store(block, codes.d);
  Store(block + 2, codes.dmin);
  StoreScales6(codes, block + 4);
  for (int i = 0; i < 256; ++i) Or(block + 16 + i % 32, codes.q[i] >> 4 << (i / 32));
  StoreNibbles256(codes, block + 48);
}

void EncodeQ6K(const float* x, std::byte* block) {
  const Codes codes = Symmetric16(x, 32, 128);
  std::memset(block, 0, 210);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128;
    const int in_half = i % 128;
    Or(block + half * 64 + in_half % 64, (codes.q[i] & 15) << (in_half / 64 * 4));
    Or(block + 128 + half * 32 + i % 32, codes.q[i] >> 4 << (in_half / 32 * 2));
  }
  for (int g = 0; g < 16; ++g) Store(block + 192 + g, static_cast<int8_t>(codes.scale[g]));
  Store(block + 208, codes.d);
}

}  // namespace hadal::quant_internal
