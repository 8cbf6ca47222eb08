#include "quant/blocks.h"

#include "base/check.h"
#include "quant/blocks_internal.h"

namespace hadal {
namespace {

using namespace quant_internal;  // NOLINT: the functions of the table below

constexpr BlockType kBlockTypes[] = {
    {DType::kQ8_0, 32, 32, false, 128, 8, ScaleKind::kF16, DecodeQ8_0},
    {DType::kQ4_0, 32, 32, false, 8, 4, ScaleKind::kF16, DecodeQ4_0},
    {DType::kQ4_1, 32, 32, true, 0, 4, ScaleKind::kF16, DecodeQ4_1},
    {DType::kQ5_0, 32, 32, false, 128, 8, ScaleKind::kF16, DecodeQ5_0},
    {DType::kQ5_1, 32, 32, true, 0, 8, ScaleKind::kF16, DecodeQ5_1},
    {DType::kQ2_K, 256, 16, true, 0, 4, ScaleKind::kSuper, DecodeQ2K},
    {DType::kQ3_K, 256, 16, false, 4, 4, ScaleKind::kSuper, DecodeQ3K},
    {DType::kQ4_K, 256, 32, true, 0, 4, ScaleKind::kSuper, DecodeQ4K},
    {DType::kQ5_K, 256, 32, true, 0, 8, ScaleKind::kSuper, DecodeQ5K},
    {DType::kQ6_K, 256, 16, false, 128, 8, ScaleKind::kSuper, DecodeQ6K},
    {DType::kIQ4_NL, 32, 32, false, 128, 8, ScaleKind::kF16, DecodeIq4Nl},
    {DType::kIQ4_XS, 256, 32, false, 128, 8, ScaleKind::kSuper, DecodeIq4Xs},
    {DType::kMXFP4, 32, 32, false, 128, 8, ScaleKind::kF32, DecodeMxfp4},
};

}  // namespace

const BlockType* FindBlockType(DType type) {
  for (const BlockType& entry : kBlockTypes) {
    if (entry.type == type) return &entry;
  }
  return nullptr;
}

void DequantizeBlock(const BlockType& type, const std::byte* data, float* out) {
  BlockCodes codes;
  type.decode(data, codes);
  for (uint32_t i = 0; i < type.block; ++i) {
    const uint32_t group = i / type.group;
    out[i] = type.has_min ? codes.d[group] * static_cast<float>(codes.u[i]) + codes.m[group]
                          : codes.d[group] * static_cast<float>(codes.u[i] - type.zero_point);
  }
}

}  // namespace hadal
