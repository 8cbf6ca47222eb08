// Blocks of 32 columns: q8_0, q4_0, q4_1, q5_0, q5_1, iq4_nl, mxfp4.
#include "quant/blocks_internal.h"

namespace hadal::quant_internal {
namespace {

// d and, where `m_at` is not null, m.
void ReadScale(const std::byte* d_at, const std::byte* m_at, BlockCodes& out) {
  out.d16 = Load<uint16_t>(d_at);
  out.m16 = m_at == nullptr ? uint16_t{0} : Load<uint16_t>(m_at);
  out.d[0] = F16ToF32(out.d16);
  out.m[0] = F16ToF32(out.m16);
}

void ReadNibbles(const std::byte* qs, BlockCodes& out) {
  for (int i = 0; i < 16; ++i) {
    out.u[i] = U8(qs + i) & 0x0F;
    out.u[i + 16] = U8(qs + i) >> 4;
  }
}

void ReadFiveBits(const std::byte* qh_at, const std::byte* qs, BlockCodes& out) {
  const uint32_t high = Load<uint32_t>(qh_at);
  ReadNibbles(qs, out);
  for (int i = 0; i < 32; ++i) out.u[i] |= static_cast<uint8_t>((high >> i & 1) << 4);
}

void Shift(int offset, BlockCodes& out) {
  for (int i = 0; i < 32; ++i) out.u[i] = static_cast<uint8_t>(out.u[i] + offset);
}

void ReadCodeBook(const std::byte* qs, const int8_t (&values)[16], BlockCodes& out) {
  ReadNibbles(qs, out);
  for (int i = 0; i < 32; ++i) out.u[i] = static_cast<uint8_t>(values[out.u[i]] + 128);
}

}  // namespace

void DecodeQ8_0(const std::byte* block, BlockCodes& out) {
  ReadScale(block, nullptr, out);
  for (int i = 0; i < 32; ++i) out.u[i] = U8(block + 2 + i) ^ 0x80;  // q + 128
}

void DecodeQ4_0(const std::byte* block, BlockCodes& out) {
  ReadScale(block, nullptr, out);
  ReadNibbles(block + 2, out);
}

void DecodeQ4_1(const std::byte* block, BlockCodes& out) {
  ReadScale(block, block + 2, out);
  ReadNibbles(block + 4, out);
}

void DecodeQ5_0(const std::byte* block, BlockCodes& out) {
  ReadScale(block, nullptr, out);
  ReadFiveBits(block + 2, block + 6, out);
  Shift(128 - 16, out);
}

void DecodeQ5_1(const std::byte* block, BlockCodes& out) {
  ReadScale(block, block + 2, out);
  ReadFiveBits(block + 4, block + 8, out);
}

void DecodeIq4Nl(const std::byte* block, BlockCodes& out) {
  ReadScale(block, nullptr, out);
  ReadCodeBook(block + 2, kIq4Values, out);
}

void DecodeMxfp4(const std::byte* block, BlockCodes& out) {
  out.d16 = out.m16 = 0;
  out.d[0] = E8M0Half(U8(block));
  out.m[0] = 0;
  ReadCodeBook(block + 1, kFp4Values, out);
}

}  // namespace hadal::quant_internal
