// Blocks of 256 columns with two levels of scales: q2_k .. q6_k, iq4_xs.
#include "quant/blocks_internal.h"

namespace hadal::quant_internal {
namespace {

// d = D * scale and m = -(Dmin * min) for every group, once scale and min are filled in.
void SetSuper(uint16_t d16, uint16_t dmin16, int groups, bool has_min, BlockCodes& out) {
  out.d16 = d16;
  out.m16 = dmin16;
  const float d = F16ToF32(d16);
  const float dmin = F16ToF32(dmin16);
  for (int g = 0; g < groups; ++g) {
    out.d[g] = d * static_cast<float>(out.scale[g]);
    out.m[g] = has_min ? -(dmin * static_cast<float>(out.min[g])) : 0.0f;
  }
}

// The 12 bytes of q4_k and q5_k: eight 6-bit scales and eight 6-bit minimums. Bytes 0..3 hold
// scales 0..3, bytes 4..7 minimums 0..3; the low nibbles of bytes 8..11 are the low bits of scales
// 4..7, the high nibbles those of minimums 4..7; their two top bits sit in the tops of bytes 0..7.
void ReadScales6(const std::byte* at, BlockCodes& out) {
  for (int i = 0; i < 4; ++i) {
    const uint8_t a = U8(at + i);
    const uint8_t b = U8(at + 4 + i);
    const uint8_t c = U8(at + 8 + i);
    out.scale[i] = static_cast<int8_t>(a & 63);
    out.min[i] = b & 63;
    out.scale[i + 4] = static_cast<int8_t>((c & 15) | (a >> 6 << 4));
    out.min[i + 4] = static_cast<uint8_t>((c >> 4) | (b >> 6 << 4));
  }
}

// q4_k and q5_k: 32 bytes serve 64 columns, low nibbles first.
void ReadNibbles256(const std::byte* qs, BlockCodes& out) {
  for (int i = 0; i < 256; ++i) {
    const uint8_t byte = U8(qs + i / 64 * 32 + i % 32);
    out.u[i] = i % 64 < 32 ? byte & 15 : byte >> 4;
  }
}

// q2_k and q3_k: 32 bytes serve 128 columns, two bits at a time.
uint8_t TwoBits(const std::byte* qs, int i) {
  return U8(qs + i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3;
}

}  // namespace

void DecodeQ2K(const std::byte* block, BlockCodes& out) {
  for (int g = 0; g < 16; ++g) {
    out.scale[g] = static_cast<int8_t>(U8(block + g) & 15);
    out.min[g] = U8(block + g) >> 4;
  }
  SetSuper(Load<uint16_t>(block + 80), Load<uint16_t>(block + 82), 16, true, out);
  for (int i = 0; i < 256; ++i) out.u[i] = TwoBits(block + 16, i);
}

void DecodeQ3K(const std::byte* block, BlockCodes& out) {
  // Sixteen 6-bit scales less 32: low nibbles of bytes 0..7 are the low bits of scales 0..7, high
  // nibbles those of 8..15; byte 8 + g % 4 holds the two top bits of scale g at bit g / 4 * 2.
  const std::byte* scales = block + 96;
  for (int g = 0; g < 16; ++g) {
    const int low = U8(scales + g % 8) >> (g / 8 * 4) & 15;
    const int high = U8(scales + 8 + g % 4) >> (g / 4 * 2) & 3;
    out.scale[g] = static_cast<int8_t>((low | high << 4) - 32);
    out.min[g] = 0;
  }
  SetSuper(Load<uint16_t>(block + 108), 0, 16, false, out);
  // Bit i / 32 of hmask[i % 32] is the third bit; the value is offset by 4.
  for (int i = 0; i < 256; ++i) {
    const int high = U8(block + i % 32) >> (i / 32) & 1;
    out.u[i] = static_cast<uint8_t>(TwoBits(block + 32, i) | high << 2);
  }
}

void DecodeQ4K(const std::byte* block, BlockCodes& out) {
  ReadScales6(block + 4, out);
  SetSuper(Load<uint16_t>(block), Load<uint16_t>(block + 2), 8, true, out);
  ReadNibbles256(block + 16, out);
}

void DecodeQ5K(const std::byte* block, BlockCodes& out) {
  ReadScales6(block + 4, out);
  SetSuper(Load<uint16_t>(block), Load<uint16_t>(block + 2), 8, true, out);
  ReadNibbles256(block + 48, out);
  for (int i = 0; i < 256; ++i) {
    const int high = U8(block + 16 + i % 32) >> (i / 32) & 1;
    out.u[i] |= static_cast<uint8_t>(high << 4);
  }
}

void DecodeQ6K(const std::byte* block, BlockCodes& out) {
  for (int g = 0; g < 16; ++g) {
    out.scale[g] = Load<int8_t>(block + 192 + g);
    out.min[g] = 0;
  }
  SetSuper(Load<uint16_t>(block + 208), 0, 16, false, out);
  // Per 128 columns: 64 bytes of low nibbles (all low ones first) and 32 bytes of high pairs.
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128;
    const int in_half = i % 128;
    const int low = U8(block + half * 64 + in_half % 64) >> (in_half / 64 * 4) & 15;
    const int high = U8(block + 128 + half * 32 + i % 32) >> (in_half / 32 * 2) & 3;
    out.u[i] = static_cast<uint8_t>((low | high << 4) - 32 + 128);
  }
}

void DecodeIq4Xs(const std::byte* block, BlockCodes& out) {
  const uint32_t high = Load<uint16_t>(block + 2);
  for (int g = 0; g < 8; ++g) {
    const int low = U8(block + 4 + g / 2) >> (g % 2 * 4) & 15;
    out.scale[g] = static_cast<int8_t>((low | (high >> (2 * g) & 3) << 4) - 32);
    out.min[g] = 0;
  }
  SetSuper(Load<uint16_t>(block), 0, 8, false, out);
  for (int i = 0; i < 256; ++i) {
    const uint8_t byte = U8(block + 8 + i / 32 * 16 + i % 16);
    out.u[i] = static_cast<uint8_t>(kIq4Values[i % 32 < 16 ? byte & 15 : byte >> 4] + 128);
  }
}

}  // namespace hadal::quant_internal
