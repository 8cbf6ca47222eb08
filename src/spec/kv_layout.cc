#include "spec/kv_layout.h"

#include <algorithm>

#include "base/error.h"

namespace hadal {

uint64_t KvLayout::bytes_per_token() const {
  uint64_t bytes = 0;
  for (const KvGroup& group : groups) bytes += group.page_bytes / block_size;
  return bytes;
}

KvLayout MakeKvLayout(const ModelSpec& spec, DType dtype, uint32_t block_size) {
  if (dtype != DType::kF32 && dtype != DType::kBF16) {
    Fail(ErrorKind::kUsage, "KV dtype {} is not supported; choose f32 or bf16", Name(dtype));
  }
  if (block_size == 0 || block_size % kTileTokens != 0 || block_size > 4096) {
    Fail(ErrorKind::kUsage, "block size {} is not a multiple of {} up to 4096", block_size,
         kTileTokens);
  }
  const AttentionSpec& attention = spec.attention;
  const bool mla = attention.kind == AttentionKind::kMla;
  const uint32_t pack = dtype == DType::kBF16 ? 2 : 1;
  const auto padded = [pack](uint32_t dim) { return (dim + pack - 1) / pack * pack; };

  KvLayout layout;
  layout.dtype = dtype;
  layout.block_size = block_size;
  layout.n_kv_heads = mla ? 1 : attention.n_kv_heads;
  layout.k_dim =
      padded(mla ? attention.kv_lora_rank + attention.qk_rope_head_dim : attention.head_dim);
  layout.v_dim = mla ? 0 : attention.head_dim;
  const uint64_t element = Info(dtype).block_bytes;
  layout.k_tile_bytes = uint64_t{layout.k_dim} * kTileTokens * element;
  layout.v_tile_bytes = uint64_t{layout.v_dim} * kTileTokens * element;
  layout.layer_bytes =
      layout.n_kv_heads * layout.tiles_per_page() * (layout.k_tile_bytes + layout.v_tile_bytes);

  for (uint32_t layer = 0; layer < spec.n_layers; ++layer) {
    const uint32_t window = spec.layers[layer].window;
    auto group = std::find_if(layout.groups.begin(), layout.groups.end(),
                              [window](const KvGroup& g) { return g.window == window; });
    if (group == layout.groups.end()) {
      group = layout.groups.insert(group, KvGroup{window, {}, 0});
    }
    layout.group_of_layer.push_back(static_cast<uint32_t>(group - layout.groups.begin()));
    layout.index_in_group.push_back(static_cast<uint32_t>(group->layers.size()));
    group->layers.push_back(layer);
    group->page_bytes += layout.layer_bytes;
  }
  return layout;
}

}  // namespace hadal
