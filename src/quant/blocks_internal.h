// Shared by the files that read and write blocks.
#pragma once

#include <cstring>

#include "quant/blocks.h"
#include "tensor/half.h"

namespace hadal::quant_internal {

// Data lies wherever the file put it, so every read is a memcpy.
template <typename T>
inline T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <typename T>
inline void Store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

inline uint8_t U8(const std::byte* at) {
  return static_cast<uint8_t>(*at);
}

// IQ4's code book of 16 signed values, and MXFP4's (e2m1 doubled).
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr int8_t kFp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 2^(e-128): half the OCP E8M0 scale, since kFp4Values are doubled. 255 is NaN in the standard.
inline float E8M0Half(uint8_t e) {
  if (e == 0xFF) return std::bit_cast<float>(0x7FC00000u);
  if (e < 2) return std::bit_cast<float>(0x00200000u << e);  // subnormal in f32
  return std::bit_cast<float>(static_cast<uint32_t>(e - 1) << 23);
}

void DecodeQ8_0(const std::byte* block, BlockCodes& out);
void DecodeQ4_0(const std::byte* block, BlockCodes& out);
void DecodeQ4_1(const std::byte* block, BlockCodes& out);
void DecodeQ5_0(const std::byte* block, BlockCodes& out);
void DecodeQ5_1(const std::byte* block, BlockCodes& out);
void DecodeQ2K(const std::byte* block, BlockCodes& out);
void DecodeQ3K(const std::byte* block, BlockCodes& out);
void DecodeQ4K(const std::byte* block, BlockCodes& out);
void DecodeQ5K(const std::byte* block, BlockCodes& out);
void DecodeQ6K(const std::byte* block, BlockCodes& out);
void DecodeIq4Nl(const std::byte* block, BlockCodes& out);
void DecodeIq4Xs(const std::byte* block, BlockCodes& out);
void DecodeMxfp4(const std::byte* block, BlockCodes& out);

}  // namespace hadal::quant_internal
