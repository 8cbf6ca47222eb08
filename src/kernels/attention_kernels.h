// The attention kernels: plain pointers, no knowledge of models or page tables.
//
// The context of a sequence is cut at multiples of kSplitTokens, counted from its first token. A
// kernel call treats one such split for a block of queries (a query is one head of one token)
// against one KV head; splits are merged in ascending order. Both the cut and the order within a
// split depend on absolute positions alone, so a query's result has the same bits in a prompt of
// any chunking and in a decode step, alone or beside others, on one thread or many.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"

namespace hadal {

inline constexpr uint32_t kSplitTokens = 256;
inline constexpr uint32_t kSplitTiles = kSplitTokens / 16;
// Queries one call may hold: enough to use each loaded tile many times, few enough that their
// scores over a split stay in the second-level cache.
inline constexpr uint32_t kMaxQueries = 64;

// One split. Requires n_tiles <= kSplitTiles and n_queries <= kMaxQueries.
struct AttentionSplitArgs {
  const std::byte* const* k_tiles = nullptr;  // [n_tiles], layout: spec/kv_layout.h
  const std::byte* const* v_tiles = nullptr;  // [n_tiles]
  // Types with scales only, [n_tiles] each: of keys f32 [2][16] (the second for the elements from
  // k_first_part on, where there are such), of values f32 [16].
  const float* const* k_scales = nullptr;
  const float* const* v_scales = nullptr;
  uint32_t n_tiles = 0;
  uint32_t first_token = 0;        // position of the first tile's first token, a multiple of 16
  const float* queries = nullptr;  // [n_queries][query_stride], zero from the head's end to k_dim
  bool query_pairs = false;        // prepare_query made them: `scale` is in them
  uint32_t query_stride = 0;
  uint32_t n_queries = 0;
  const uint32_t* begin = nullptr;  // [n_queries]: query i sees the positions [begin[i], end[i])
  const uint32_t* end = nullptr;
  uint32_t k_dim = 0;         // of the tile, padding included
  uint32_t k_first_part = 0;  // elements under the first scale, a multiple of the pack
  uint32_t v_dim = 0;
  float scale = 0;
  float* scores = nullptr;  // scratch, [n_queries][kSplitTokens]
  // Out, relative to the split's own maximum: max (-inf where a query sees nothing), sum of
  // e^(score - max), and the values weighted by it, [n_queries][acc_stride].
  float* max = nullptr;
  float* sum = nullptr;
  float* acc = nullptr;
  uint32_t acc_stride = 0;  // >= v_dim
};

// Adds the next split to what came before. max, sum, acc start as -inf, 0, 0.
struct AttentionMergeArgs {
  float* max = nullptr;
  float* sum = nullptr;
  float* acc = nullptr;
  const float* split_max = nullptr;
  const float* split_sum = nullptr;
  const float* split_acc = nullptr;
  uint32_t n_queries = 0;
  uint32_t acc_stride = 0;
  uint32_t v_dim = 0;
};

// Puts one token's key (or a part of it) or value into a tile.
struct StoreTokenArgs {
  const float* x = nullptr;
  uint32_t dim = 0;
  uint32_t token = 0;         // 0..15
  std::byte* tile = nullptr;  // of keys: where the part begins
  float* scales = nullptr;    // f32 [16]; types with scales only
};

// The kernels for one KV element type.
struct AttentionTileKernels {
  Kernel<void(const AttentionSplitArgs& args)> attend_split;
  // A K tile's first v_dim elements rearranged as a V tile, without scales (MLA: the values are
  // part of the keys).
  Kernel<void(const std::byte* k_tile, uint32_t v_dim, std::byte* v_tile)> transpose_tile;
  // bf16 is rounded to nearest even; for the 8-bit types see tensor/byte_vector.h.
  Kernel<void(const StoreTokenArgs& args)> store_k;
  Kernel<void(const StoreTokenArgs& args)> store_v;
  // A query as attend_split likes it best, in place, 64-byte aligned: where PreparesQueries().
  Kernel<void(float* query, uint32_t k_dim, float scale)> prepare_query;
};

// For keys and values of such sizes; not every type and level does.
inline bool PreparesQueries(const AttentionTileKernels& kernels, uint32_t k_dim, uint32_t v_dim) {
  return kernels.prepare_query && k_dim % 32 == 0 && v_dim % 16 == 0;
}

struct AttentionKernels {
  AttentionTileKernels f32;
  AttentionTileKernels bf16;
  AttentionTileKernels int8;
  AttentionTileKernels fp8;
  Kernel<void(const AttentionMergeArgs& args)> merge_split;
  // out = acc / sum, n elements.
  Kernel<void(const float* acc, float sum, uint32_t n, float* out)> finish;
};

}  // namespace hadal
