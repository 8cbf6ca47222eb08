// How KV pages lie in memory: the one description that the block pool, the memory plan and the
// attention kernels share. Pure arithmetic, exact to the byte.
//
// A tile holds kTileTokens tokens of one KV head of one layer; a page is block_size / kTileTokens
// tiles deep and holds every layer of its group. Layers of equal sliding window form a group, each
// with its own arena and page tables, so that pages outside the window can return to the pool.
//
//   arena(group) = [page][layer of the group][kv head]{ K tiles [tile], V tiles [tile] }
//   K tile: f32 [d][16]   bf16 [d/2][16][2]   8 bits [d/4][16][4], then scales f32 [part][16]
//   V tile: f32 [16][d]   bf16 [8][d][2]      8 bits [4][d][4], then scales f32 [16]
// In K tiles 16 tokens lie across the lanes of a vector, and each part of d is padded to the pack
// (the last dimension); in V tiles head_dim does. MLA stores one latent per token as K alone.
//
// The 8-bit types are int8 and FP8 (e4m3), four neighbours in 32 bits: what an integer dot product
// takes at once, and what a shift by a constant separates for either type. Every token, head and
// part has a scale of its own (tensor/byte_vector.h), so that its bytes depend on that token alone.
// A key has one part; MLA's has two, latent and rope, since the one is normalised and the other is
// not. Scales lie in the tile: a page is whole by itself, wherever it is copied.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "spec/model_spec.h"
#include "tensor/dtype.h"

namespace hadal {

inline constexpr uint32_t kTileTokens = 16;

// Stands in a page table where the sliding window has passed a page.
inline constexpr uint32_t kNoPage = 0xFFFFFFFF;

struct KvGroup {
  uint32_t window = 0;           // 0: full attention
  std::vector<uint32_t> layers;  // model layer indices, ascending
  uint64_t page_bytes = 0;       // one page, all its layers
};

// Elements of a key that share a scale: `dim` of them, at element `offset` of the tile.
struct KvPart {
  uint32_t dim = 0;
  uint32_t offset = 0;
};

struct KvLayout {
  DType dtype = DType::kBF16;   // one of kKvTypes
  uint32_t block_size = 16;     // tokens per page, a multiple of kTileTokens
  uint32_t n_kv_heads = 0;      // 1 for MLA
  uint32_t k_dim = 0;           // elements of K per token and head, padding included
  uint32_t v_dim = 0;           // 0 for MLA
  std::vector<KvPart> k_parts;  // the key; MLA: latent, rope
  bool scaled = false;          // an 8-bit type
  uint64_t k_scales_at = 0;     // bytes into a K tile; without scales, its end
  uint64_t v_scales_at = 0;     // bytes into a V tile
  uint64_t k_tile_bytes = 0;    // scales included
  uint64_t v_tile_bytes = 0;    // 0 for MLA
  uint64_t layer_bytes = 0;     // one layer of one page
  std::vector<KvGroup> groups;
  std::vector<uint32_t> group_of_layer;  // [n_layers]
  std::vector<uint32_t> index_in_group;  // [n_layers]

  uint32_t tiles_per_page() const { return block_size / kTileTokens; }
  // Elements of a key, without padding.
  uint32_t key_dim() const;
  // Bytes one token takes over all layers, padding included.
  uint64_t bytes_per_token() const;
  // Bytes into a K tile where a part begins.
  uint64_t KPartOffset(const KvPart& part) const { return k_scales_at / k_dim * part.offset; }
  // Offset of a tile inside its group's arena.
  uint64_t KTileOffset(uint32_t layer, uint32_t page, uint32_t head, uint32_t tile) const {
    const KvGroup& group = groups[group_of_layer[layer]];
    return page * group.page_bytes + index_in_group[layer] * layer_bytes +
           head * (layer_bytes / n_kv_heads) + tile * k_tile_bytes;
  }
  uint64_t VTileOffset(uint32_t layer, uint32_t page, uint32_t head, uint32_t tile) const {
    return KTileOffset(layer, page, head, 0) + tiles_per_page() * k_tile_bytes +
           tile * v_tile_bytes;
  }
};

// The types a cache can have, most exact first, by the names that users know them by.
struct KvType {
  std::string_view name;
  DType dtype;
};
inline constexpr KvType kKvTypes[] = {
    {"f32", DType::kF32}, {"bf16", DType::kBF16}, {"int8", DType::kI8}, {"fp8", DType::kF8E4M3}};

// Elements of a key, or tokens of a value, that lie side by side in a tile. Requires a type of
// kKvTypes.
uint32_t KvPack(DType dtype);

// Throws Error(kUsage) for a dtype or block size that is not supported.
KvLayout MakeKvLayout(const ModelSpec& spec, DType dtype, uint32_t block_size);

}  // namespace hadal
