// How KV pages lie in memory: the one description that the block pool, the memory plan and the
// attention kernels share. Pure arithmetic, exact to the byte.
//
// A tile holds kTileTokens tokens of one KV head of one layer; a page is block_size / kTileTokens
// tiles deep and holds every layer of its group. Layers of equal sliding window form a group, each
// with its own arena and page tables, so that pages outside the window can return to the pool.
//
//   arena(group) = [page][layer of the group][kv head]{ K tiles [tile], V tiles [tile] }
//   K tile: f32 [d][16]   bf16 [d/2][16][2]   (16 tokens across the lanes; d padded to the pack)
//   V tile: f32 [16][d]   bf16 [8][d][2]      (head_dim across the lanes)
// MLA stores one latent per token as K alone: d = kv_lora_rank + qk_rope_head_dim, latent first.
#pragma once

#include <cstdint>
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

struct KvLayout {
  DType dtype = DType::kBF16;  // kF32 or kBF16
  uint32_t block_size = 16;    // tokens per page, a multiple of kTileTokens
  uint32_t n_kv_heads = 0;     // 1 for MLA
  uint32_t k_dim = 0;          // elements of K per token and head, padding included
  uint32_t v_dim = 0;          // 0 for MLA
  uint64_t k_tile_bytes = 0;
  uint64_t v_tile_bytes = 0;  // 0 for MLA
  uint64_t layer_bytes = 0;   // one layer of one page
  std::vector<KvGroup> groups;
  std::vector<uint32_t> group_of_layer;  // [n_layers]
  std::vector<uint32_t> index_in_group;  // [n_layers]

  uint32_t tiles_per_page() const { return block_size / kTileTokens; }
  // Bytes one token takes over all layers, padding included.
  uint64_t bytes_per_token() const;
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

// Throws Error(kUsage) for a dtype or block size that is not supported.
KvLayout MakeKvLayout(const ModelSpec& spec, DType dtype, uint32_t block_size);

}  // namespace hadal
