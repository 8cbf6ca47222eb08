#include "backend/cpu/rope.h"

#include <algorithm>

#include "base/check.h"
#include "base/work_counters.h"

namespace hadal {
namespace {

// Rows one thread takes at a time: of a prompt a whole tile's worth, so that threads seldom write
// the same cache lines; a few rows are shared out evenly.
uint32_t RowsPerTask(uint32_t rows, int threads) {
  return std::clamp(rows / (2 * static_cast<uint32_t>(threads)), 2u, kTileTokens);
}

void Rotate(const RopeKernels& kernels, const RopeStoreArgs& args, uint32_t row) {
  const auto rotate = args.rope_layout == RopeLayout::kHalfSplit ? kernels.rotate_half_split
                                                                 : kernels.rotate_interleaved;
  RotateArgs to;
  to.half = args.rope_dim / 2;
  to.cos = args.cos.row(row);
  to.sin = args.sin.row(row);
  to.x = args.q.row(row) + args.q_rope_offset;
  to.heads = args.q_heads;
  to.head_stride = args.q_head_dim;
  rotate(to);
  to.x = args.k.row(row) + args.k_rope_offset;
  to.heads = args.kv_heads;
  to.head_stride = args.k_head_dim;
  rotate(to);
}

void StoreRow(const AttentionTileKernels& kernels, uint32_t slot, KvCache& kv,
              const RopeStoreArgs& args, uint32_t row) {
  const KvLayout& layout = kv.layout;
  const uint32_t group = layout.group_of_layer[args.layer];
  const uint32_t page = slot / layout.block_size;
  const uint32_t in_page = slot % layout.block_size / kTileTokens;
  const uint32_t token = slot % kTileTokens;
  HADAL_CHECK((uint64_t{page} + 1) * layout.groups[group].page_bytes <= kv.arenas[group].size());
  auto* arena = static_cast<std::byte*>(kv.arenas[group].data());
  thread_work.bytes += args.kv_heads * (layout.k_tile_bytes + layout.v_tile_bytes) / kTileTokens;
  for (uint32_t head = 0; head < args.kv_heads; ++head) {
    StoreTokenArgs store;
    store.token = token;
    std::byte* tile = arena + layout.KTileOffset(args.layer, page, head, in_page);
    store.x = args.k.row(row) + head * args.k_head_dim;
    store.scales = reinterpret_cast<float*>(tile + layout.k_scales_at);
    for (const KvPart& part : layout.k_parts) {
      store.dim = part.dim;
      store.tile = tile + layout.KPartOffset(part);
      kernels.store_k(store);
      store.x += part.dim;
      store.scales += kTileTokens;
    }
    if (!args.v) continue;
    store.x = args.v.row(row) + head * args.v_head_dim;
    store.dim = args.v_head_dim;
    store.tile = arena + layout.VTileOffset(args.layer, page, head, in_page);
    store.scales = reinterpret_cast<float*>(store.tile + layout.v_scales_at);
    kernels.store_v(store);
  }
}

}  // namespace

void CpuRopeAndStore(ThreadPool& pool, const KernelTable& kernels, const StepInput& step,
                     KvCache& kv, const RopeStoreArgs& args) {
  const KvLayout& layout = kv.layout;
  HADAL_CHECK(args.kv_heads == layout.n_kv_heads && args.v_head_dim == layout.v_dim);
  HADAL_CHECK(args.k_head_dim == layout.key_dim() && args.q.rows == step.n_tokens());
  const std::span<const uint32_t> slots = step.groups[layout.group_of_layer[args.layer]].slots;
  const AttentionTileKernels& tiles = TileKernels(kernels.attention, layout.dtype);
  const uint32_t per_task = RowsPerTask(args.q.rows, pool.size());
  pool.ParallelFor((args.q.rows + per_task - 1) / per_task, [&](int64_t index, int /*thread*/) {
    const uint32_t first = static_cast<uint32_t>(index) * per_task;
    for (uint32_t row = first; row < std::min(first + per_task, args.q.rows); ++row) {
      Rotate(kernels.rope, args, row);
      StoreRow(tiles, slots[row], kv, args, row);
    }
  });
}

}  // namespace hadal
