#include "spec/kv_layout.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace hadal {
namespace {

ModelSpec Gqa(uint32_t layers, uint32_t kv_heads, uint32_t head_dim) {
  ModelSpec spec;
  spec.n_layers = layers;
  spec.layers.resize(layers);
  spec.attention = {.n_heads = kv_heads, .n_kv_heads = kv_heads, .head_dim = head_dim};
  return spec;
}

ModelSpec Mla(uint32_t layers) {
  ModelSpec spec = Gqa(layers, 16, 192);
  spec.attention.kind = AttentionKind::kMla;
  spec.attention.kv_lora_rank = 512;
  spec.attention.qk_rope_head_dim = 64;
  return spec;
}

TEST(KvLayout, BytesPerTokenOfPublishedModels) {
  EXPECT_EQ(MakeKvLayout(Mla(27), DType::kBF16, 16).bytes_per_token(), 31104u);  // V2-Lite
  EXPECT_EQ(MakeKvLayout(Mla(61), DType::kBF16, 64).bytes_per_token(), 70272u);  // V3, R1
  EXPECT_EQ(MakeKvLayout(Gqa(28, 4, 128), DType::kBF16, 16).bytes_per_token(), 57344u);
  EXPECT_EQ(MakeKvLayout(Mla(27), DType::kBF16, 16).bytes_per_token() * 32768, uint64_t{972} << 20);
}

// One byte per element and one f32 scale per token, head and part.
TEST(KvLayout, BytesPerTokenOfTheEightBitTypes) {
  for (const DType type : {DType::kI8, DType::kF8E4M3}) {
    EXPECT_EQ(MakeKvLayout(Gqa(28, 4, 128), type, 16).bytes_per_token(), 28u * 4 * 2 * (128 + 4));
    EXPECT_EQ(MakeKvLayout(Mla(27), type, 64).bytes_per_token(), 27u * (512 + 4 + 64 + 4));
  }
}

TEST(KvLayout, PartsOfAKeyBeginAtWholePacks) {
  ModelSpec spec = Mla(1);
  spec.attention.kv_lora_rank = 33;
  spec.attention.qk_rope_head_dim = 6;
  const KvLayout layout = MakeKvLayout(spec, DType::kI8, 16);
  ASSERT_EQ(layout.k_parts.size(), 2u);
  EXPECT_EQ(layout.k_parts[1].offset, 36u);
  EXPECT_EQ(layout.KPartOffset(layout.k_parts[1]), 36u * 16);
  EXPECT_EQ(layout.key_dim(), 39u);
  EXPECT_EQ(layout.k_dim, 44u);
  EXPECT_EQ(layout.k_scales_at, 44u * 16);
  EXPECT_EQ(layout.k_tile_bytes, 44u * 16 + 2 * 16 * 4);
  EXPECT_EQ(layout.bytes_per_token(), 44u + 8);
  EXPECT_EQ(MakeKvLayout(spec, DType::kBF16, 16).bytes_per_token(), (34u + 6) * 2);
}

class EveryKvType : public testing::TestWithParam<KvType> {};

TEST_P(EveryKvType, TilesOfAPageDoNotOverlap) {
  const KvLayout layout = MakeKvLayout(Gqa(3, 2, 6), GetParam().dtype, 32);
  uint64_t next = 0;
  for (uint32_t page = 0; page < 2; ++page) {
    for (uint32_t layer = 0; layer < 3; ++layer) {
      for (uint32_t head = 0; head < 2; ++head) {
        for (uint32_t tile = 0; tile < 2; ++tile, next += layout.k_tile_bytes) {
          EXPECT_EQ(layout.KTileOffset(layer, page, head, tile), next);
        }
        for (uint32_t tile = 0; tile < 2; ++tile, next += layout.v_tile_bytes) {
          EXPECT_EQ(layout.VTileOffset(layer, page, head, tile), next);
        }
      }
    }
  }
  EXPECT_EQ(next, 2 * layout.groups[0].page_bytes);
}

INSTANTIATE_TEST_SUITE_P(KvLayout, EveryKvType, testing::ValuesIn(kKvTypes),
                         [](const auto& type) { return std::string(type.param.name); });

TEST(KvLayout, LayersOfEqualWindowShareAGroup) {
  ModelSpec spec = Gqa(4, 1, 8);
  spec.layers[2].window = spec.layers[3].window = 16;
  const KvLayout layout = MakeKvLayout(spec, DType::kBF16, 16);
  ASSERT_EQ(layout.groups.size(), 2u);
  EXPECT_EQ(layout.groups[1].layers, (std::vector<uint32_t>{2, 3}));
  EXPECT_EQ(layout.index_in_group[3], 1u);
}

TEST(KvLayout, OddDimensionsArePaddedAndCounted) {
  EXPECT_EQ(MakeKvLayout(Gqa(1, 1, 7), DType::kBF16, 16).bytes_per_token(), (8u + 7u) * 2);
  EXPECT_EQ(MakeKvLayout(Gqa(1, 1, 7), DType::kI8, 16).bytes_per_token(), 8u + 4 + 7 + 4);
  EXPECT_EQ(MakeKvLayout(Gqa(1, 1, 5), DType::kF8E4M3, 16).bytes_per_token(), 8u + 4 + 5 + 4);
}

TEST(KvLayout, RefusesWhatItCannotLayOut) {
  EXPECT_THROW(MakeKvLayout(Gqa(1, 1, 8), DType::kQ4_0, 16), Error);
  EXPECT_THROW(MakeKvLayout(Gqa(1, 1, 8), DType::kF32, 24), Error);
  EXPECT_THROW(MakeKvLayout(Gqa(1, 1, 8), DType::kF32, 0), Error);
}

}  // namespace
}  // namespace hadal
