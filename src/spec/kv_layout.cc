#include "spec/kv_layout.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/error.h"
#include "tensor/byte_vector.h"

namespace hadal {
namespace {

bool IsKvType(DType dtype) {
  return std::any_of(std::begin(kKvTypes), std::end(kKvTypes),
                     [dtype](const KvType& type) { return type.dtype == dtype; });
}

// Sets k_parts and k_dim: each part begins at a whole pack.
void LayOutKey(const AttentionSpec& attention, KvLayout& layout) {
  const uint32_t pack = KvPack(layout.dtype);
  const bool mla = attention.kind == AttentionKind::kMla;
  const std::vector<uint32_t> dims =
      mla ? std::vector<uint32_t>{attention.kv_lora_rank, attention.qk_rope_head_dim}
          : std::vector<uint32_t>{attention.head_dim};
  for (const uint32_t dim : dims) {
    layout.k_parts.push_back({dim, layout.k_dim});
    layout.k_dim += (dim + pack - 1) / pack * pack;
  }
}

}  // namespace

uint64_t KvLayout::bytes_per_token() const {
  uint64_t bytes = 0;
  for (const KvGroup& group : groups) bytes += group.page_bytes / block_size;
  return bytes;
}

uint32_t KvLayout::key_dim() const {
  uint32_t dim = 0;
  for (const KvPart& part : k_parts) dim += part.dim;
  return dim;
}

uint32_t KvPack(DType dtype) {
  HADAL_CHECK(IsKvType(dtype));
  return 4 / Info(dtype).block_bytes;
}

KvLayout MakeKvLayout(const ModelSpec& spec, DType dtype, uint32_t block_size) {
  if (!IsKvType(dtype)) {
    Fail(ErrorKind::kUsage, "KV dtype {} is not supported; choose f32, bf16, int8 or fp8",
         Name(dtype));
  }
  if (block_size == 0 || block_size % kTileTokens != 0 || block_size > 4096) {
    Fail(ErrorKind::kUsage, "block size {} is not a multiple of {} up to 4096", block_size,
         kTileTokens);
  }
  const AttentionSpec& attention = spec.attention;
  const bool mla = attention.kind == AttentionKind::kMla;

  KvLayout layout;
  layout.dtype = dtype;
  layout.block_size = block_size;
  layout.scaled = IsByteVectorType(dtype);
  layout.n_kv_heads = mla ? 1 : attention.n_kv_heads;
  layout.v_dim = mla ? 0 : attention.head_dim;
  LayOutKey(attention, layout);
  const uint64_t element = Info(dtype).block_bytes;
  const uint64_t scales = layout.scaled ? kTileTokens * sizeof(float) : 0;
  layout.k_scales_at = uint64_t{layout.k_dim} * kTileTokens * element;
  layout.v_scales_at = uint64_t{layout.v_dim} * kTileTokens * element;
  layout.k_tile_bytes = layout.k_scales_at + layout.k_parts.size() * scales;
  layout.v_tile_bytes = mla ? 0 : layout.v_scales_at + scales;
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
