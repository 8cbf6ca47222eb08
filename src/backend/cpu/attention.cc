#include "backend/cpu/attention.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <new>

#include "base/check.h"
#include "base/work_counters.h"
#include "kernels/kernels.h"

namespace hadal {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr uint64_t kLane = 16;  // floats of an aligned line
constexpr uint32_t kMaxSlots = 1024;
// Latent queries (MLA) held at a time.
constexpr uint64_t kLatentBytes = 16 << 20;

constexpr uint64_t RoundUp(uint64_t n) {
  return (n + kLane - 1) / kLane * kLane;
}

}  // namespace

void CpuAttention::AlignedDelete::operator()(float* data) const {
  ::operator delete(data, kAlignment);
}

CpuAttention::CpuAttention(ThreadPool* pool, const AttentionKernels* kernels)
    : pool_(pool), kernels_(kernels), thread_counts_(static_cast<size_t>(pool->size())) {}

CpuAttention::Sizes CpuAttention::SizesFor(const ModelSpec& spec, const StepLimits& limits) const {
  const AttentionSpec& attention = spec.attention;
  const bool mla = attention.kind == AttentionKind::kMla;
  // The two parts of MLA's keys may each be padded (KvLayout::k_parts).
  const uint64_t k_dim = mla ? RoundUp(attention.kv_lora_rank) + RoundUp(attention.qk_rope_head_dim)
                             : attention.head_dim;
  const uint64_t v_dim = mla ? attention.kv_lora_rank : attention.head_dim;
  Sizes sizes;
  sizes.query_stride = RoundUp(k_dim);
  sizes.acc_stride = RoundUp(v_dim);
  const uint64_t partial = 2 * kMaxQueries + kMaxQueries * sizes.acc_stride;
  const uint64_t values = mla ? uint64_t{kSplitTokens} * v_dim : 0;
  sizes.thread = kMaxQueries * (sizes.query_stride + kSplitTokens) + 2 * partial + values;
  sizes.shared = 4 * static_cast<uint64_t>(pool_->size()) * partial;
  if (mla) {
    const uint64_t row = uint64_t{attention.n_heads} * attention.kv_lora_rank;
    const uint64_t rows = std::max<uint64_t>(kLatentBytes / sizeof(float) / row, kLane);
    sizes.latent_rows = static_cast<uint32_t>(std::min<uint64_t>(rows, limits.max_tokens));
    sizes.latent = RoundUp(sizes.latent_rows * row);
  }
  sizes.thread = RoundUp(sizes.thread);
  sizes.total =
      static_cast<uint64_t>(pool_->size()) * sizes.thread + 2 * sizes.shared + sizes.latent;
  return sizes;
}

uint64_t CpuAttention::WorkspaceBytes(const ModelSpec& spec, const StepLimits& limits) const {
  return SizesFor(spec, limits).total * sizeof(float) + limits.max_tokens * sizeof(Block) +
         kMaxSlots * sizeof(Unit);
}

void CpuAttention::Reserve(const ModelSpec& spec, const StepLimits& limits) {
  sizes_ = SizesFor(spec, limits);
  workspace_.reset(static_cast<float*>(::operator new(sizes_.total * sizeof(float), kAlignment)));
  shared_ = workspace_.get() + static_cast<uint64_t>(pool_->size()) * sizes_.thread;
  latent_ = shared_ + 2 * sizes_.shared;
  latent_rows_ = sizes_.latent_rows;
  blocks_.reserve(limits.max_tokens);
  units_.reserve(kMaxSlots);
}

CpuAttention::Partial CpuAttention::PartialAt(float* base, uint32_t n_queries) const {
  const uint64_t n = RoundUp(n_queries);
  return {base, base + n, base + 2 * n};
}

uint64_t CpuAttention::PartialFloats(uint32_t n_queries) const {
  return 2 * RoundUp(n_queries) + n_queries * sizes_.acc_stride;
}

CpuAttention::Scratch CpuAttention::ScratchOf(int thread) const {
  float* at = workspace_.get() + static_cast<uint64_t>(thread) * sizes_.thread;
  const auto take = [&at](uint64_t n) {
    float* taken = at;
    at += n;
    return taken;
  };
  Scratch scratch;
  scratch.queries = take(kMaxQueries * sizes_.query_stride);
  scratch.scores = take(kMaxQueries * kSplitTokens);
  scratch.split = PartialAt(take(PartialFloats(kMaxQueries)), kMaxQueries);
  scratch.state = PartialAt(take(PartialFloats(kMaxQueries)), kMaxQueries);
  scratch.values = reinterpret_cast<std::byte*>(at);
  return scratch;
}

void CpuAttention::Gqa(const StepInput& step, const KvCache& kv, const AttentionGqaArgs& args) {
  HADAL_CHECK(args.kv_heads == kv.layout.n_kv_heads && args.heads % args.kv_heads == 0);
  HADAL_CHECK(args.head_dim == kv.layout.v_dim);
  Problem problem;
  problem.step = &step;
  problem.kv = &kv;
  problem.layer = args.layer;
  problem.window = args.window;
  problem.scale = args.scale;
  problem.n_rows = args.q.rows;
  problem.parts[0] = {args.q, args.head_dim, 0, args.head_dim, 0};
  problem.n_parts = 1;
  problem.out = args.out;
  problem.out_head_stride = args.head_dim;
  problem.kv_heads = args.kv_heads;
  problem.heads_per_kv = args.heads / args.kv_heads;
  problem.v_dim = args.head_dim;
  Run(problem);
}

// `latent` holds the queries before and the weighted latents after: an item's output is written
// when all of its splits are done.
void CpuAttention::Latent(const StepInput& step, const KvCache& kv, const AttentionMlaArgs& args,
                          uint32_t first_row, Tensor q, Tensor latent) {
  HADAL_CHECK(kv.layout.v_dim == 0 && kv.layout.key_dim() == args.kv_lora + args.rope);
  Problem problem;
  problem.step = &step;
  problem.kv = &kv;
  problem.layer = args.layer;
  problem.window = args.window;
  problem.scale = args.scale;
  problem.first_row = first_row;
  problem.n_rows = q.rows;
  problem.parts[0] = {latent, args.kv_lora, 0, args.kv_lora, 0};
  problem.parts[1] = {q, args.nope + args.rope, args.nope, args.rope, kv.layout.k_parts[1].offset};
  problem.n_parts = 2;
  problem.out = latent;
  problem.out_head_stride = args.kv_lora;
  problem.kv_heads = 1;
  problem.heads_per_kv = args.heads;
  problem.v_dim = args.kv_lora;
  problem.values_in_keys = true;
  Run(problem);
}

void CpuAttention::Run(const Problem& problem) {
  HADAL_CHECK(workspace_ != nullptr);
  HADAL_CHECK(problem.kv->layout.k_dim <= sizes_.query_stride);
  HADAL_CHECK(problem.v_dim <= sizes_.acc_stride);
  tile_kernels_ = &TileKernels(*kernels_, problem.kv->layout.dtype);
  MakeBlocks(problem);
  if (blocks_.empty()) return;
  uint64_t total = 0;
  uint64_t longest = 0;
  for (const Block& block : blocks_) {
    total += uint64_t{block.n_splits()} * items_per_block_;
    longest = std::max<uint64_t>(longest, block.n_splits());
  }
  // Whole items need no partial results; but one item may not keep the others waiting.
  const auto threads = static_cast<uint64_t>(pool_->size());
  if (threads == 1 || longest == 1 || 2 * threads * longest <= total) {
    RunWhole(problem);
  } else {
    RunWaves(problem);
  }
  for (ThreadCount& count : thread_counts_) {
    tiles_ += count.tiles;
    count.tiles = 0;
  }
}

// Blocks end where positions are multiples of their size: then a block of up to 16 rows lies in
// one tile, and reading what its last row sees reads nothing in vain for the others.
void CpuAttention::MakeBlocks(const Problem& problem) {
  head_groups_ = (problem.heads_per_kv + kMaxQueries - 1) / kMaxQueries;
  items_per_block_ = problem.kv_heads * head_groups_;
  const uint32_t heads = (problem.heads_per_kv + head_groups_ - 1) / head_groups_;
  const uint32_t max_rows = std::min(std::bit_floor(kMaxQueries / heads), kTileTokens);
  blocks_.clear();
  uint32_t widest = 1;
  const StepInput& step = *problem.step;
  const uint32_t last_row = problem.first_row + problem.n_rows;
  for (uint32_t s = 0; s < step.sequences.size(); ++s) {
    const StepSequence& sequence = step.sequences[s];
    const uint32_t end = std::min(sequence.first_row + sequence.n_rows, last_row);
    for (uint32_t row = std::max(sequence.first_row, problem.first_row); row < end;) {
      const uint32_t position = step.positions[row];
      const uint32_t n = std::min(max_rows - position % max_rows, end - row);
      HADAL_CHECK(position + n <= sequence.context);
      HADAL_CHECK(blocks_.size() < blocks_.capacity());
      const uint32_t begin =
          problem.window != 0 && position + 1 > problem.window ? position + 1 - problem.window : 0;
      blocks_.push_back({s, row, n, begin, position + n});
      widest = std::max(widest, n);
      row += n;
    }
  }
  block_queries_ = widest * heads;
}

CpuAttention::Item CpuAttention::ItemAt(const Problem& problem, uint32_t index) const {
  const uint32_t part = index % items_per_block_;
  const uint32_t kv_head = part / head_groups_;
  const uint32_t group = part % head_groups_;
  const uint32_t first = group * problem.heads_per_kv / head_groups_;
  const uint32_t end = (group + 1) * problem.heads_per_kv / head_groups_;
  return {&blocks_[index / items_per_block_], kv_head, kv_head * problem.heads_per_kv + first,
          end - first, group == 0};
}

void CpuAttention::RunWhole(const Problem& problem) {
  const uint32_t n = n_items();
  // Last rows first: they see most, and short work at the end levels the threads.
  pool_->ParallelFor(n, [&](int64_t index, int thread) {
    const Item item = ItemAt(problem, n - 1 - static_cast<uint32_t>(index));
    const Scratch scratch = ScratchOf(thread);
    Pack(problem, item, scratch.queries);
    Start(item, scratch.state);
    const uint32_t first = item.block->first_split();
    for (uint32_t split = first; split < first + item.block->n_splits(); ++split) {
      Attend(problem, item, split, scratch, scratch.split, thread);
      Merge(problem, item, scratch.state, scratch.split);
    }
    Finish(problem, item, scratch.state);
  });
}

// The next units in order, as many as there are slots for partial results.
uint32_t CpuAttention::NextWave(Unit& next, uint32_t n_slots) {
  units_.clear();
  while (next.item < n_items() && units_.size() < n_slots) {
    const Block& block = blocks_[next.item / items_per_block_];
    units_.push_back({next.item, block.first_split() + next.split});
    if (++next.split == block.n_splits()) next = {next.item + 1, 0};
  }
  return static_cast<uint32_t>(units_.size());
}

void CpuAttention::RunWaves(const Problem& problem) {
  const uint64_t slot = PartialFloats(block_queries_);
  const auto n_slots = static_cast<uint32_t>(std::min<uint64_t>(sizes_.shared / slot, kMaxSlots));
  Unit next;
  while (NextWave(next, n_slots) > 0) {
    pool_->ParallelFor(static_cast<int64_t>(units_.size()), [&](int64_t index, int thread) {
      const Unit& unit = units_[static_cast<size_t>(index)];
      const Item item = ItemAt(problem, unit.item);
      const Scratch scratch = ScratchOf(thread);
      Pack(problem, item, scratch.queries);
      Attend(problem, item, unit.split, scratch,
             PartialAt(shared_ + static_cast<uint64_t>(index) * slot, block_queries_), thread);
    });
    const uint32_t first_item = units_.front().item;
    const uint32_t last_item = units_.back().item;
    pool_->ParallelFor(int64_t{last_item} - first_item + 1, [&](int64_t index, int /*thread*/) {
      const uint32_t item = first_item + static_cast<uint32_t>(index);
      const auto begin = std::partition_point(units_.begin(), units_.end(),
                                              [item](const Unit& u) { return u.item < item; });
      MergeWave(problem, item, static_cast<uint32_t>(begin - units_.begin()), n_slots);
    });
  }
}

// States lie behind the slots, one for each item of a wave; an item that goes on in the next wave
// finds its state where it was.
void CpuAttention::MergeWave(const Problem& problem, uint32_t index, uint32_t first_unit,
                             uint32_t n_slots) {
  const Item item = ItemAt(problem, index);
  const uint64_t slot = PartialFloats(block_queries_);
  const Partial state =
      PartialAt(shared_ + sizes_.shared + uint64_t{index % n_slots} * slot, block_queries_);
  const uint32_t first_split = item.block->first_split();
  if (units_[first_unit].split == first_split) Start(item, state);
  uint32_t unit = first_unit;
  for (; unit < units_.size() && units_[unit].item == index; ++unit) {
    Merge(problem, item, state, PartialAt(shared_ + unit * slot, block_queries_));
  }
  if (units_[unit - 1].split == first_split + item.block->n_splits() - 1) {
    Finish(problem, item, state);
  }
}

void CpuAttention::Pack(const Problem& problem, const Item& item, float* queries) const {
  const uint32_t k_dim = problem.kv->layout.k_dim;
  const bool prepare = PreparesQueries(*tile_kernels_, k_dim, problem.v_dim);
  for (uint32_t i = 0; i < item.n_queries(); ++i) {
    const uint32_t row = item.block->first_row + i / item.n_heads - problem.first_row;
    const uint32_t head = item.first_head + i % item.n_heads;
    float* query = queries + i * sizes_.query_stride;
    float* end = query;
    for (uint32_t p = 0; p < problem.n_parts; ++p) {
      const QueryPart& part = problem.parts[p];
      std::fill(end, query + part.offset, 0.0f);
      end = std::copy_n(part.x.row(row) + head * part.head_stride + part.first, part.n,
                        query + part.offset);
    }
    std::fill(end, query + k_dim, 0.0f);
    if (prepare) tile_kernels_->prepare_query(query, k_dim, problem.scale);
  }
}

void CpuAttention::Attend(const Problem& problem, const Item& item, uint32_t split,
                          const Scratch& scratch, const Partial& out, int thread) {
  const Block& block = *item.block;
  const KvLayout& layout = problem.kv->layout;
  const uint32_t group = layout.group_of_layer[problem.layer];
  const StepInput::KvPages& pages = problem.step->groups[group];
  const auto* arena = static_cast<const std::byte*>(problem.kv->arenas[group].data());
  const uint32_t first = std::max(block.begin / kTileTokens, split * kSplitTiles);
  const uint32_t end = std::min((block.end - 1) / kTileTokens + 1, (split + 1) * kSplitTiles);
  const std::byte* k_tiles[kSplitTiles];
  const std::byte* v_tiles[kSplitTiles];
  const float* k_scales[kSplitTiles];
  const float* v_scales[kSplitTiles];
  for (uint32_t tile = first; tile < end; ++tile) {
    const uint32_t i = tile - first;
    const uint32_t entry = pages.page_offsets[block.sequence] + tile / layout.tiles_per_page();
    HADAL_CHECK(entry < pages.page_offsets[block.sequence + 1]);
    const uint32_t page = pages.pages[entry];
    HADAL_CHECK(page != kNoPage);
    const uint32_t in_page = tile % layout.tiles_per_page();
    k_tiles[i] = arena + layout.KTileOffset(problem.layer, page, item.kv_head, in_page);
    if (problem.values_in_keys) {
      const uint64_t bytes = uint64_t{problem.v_dim} * kTileTokens * sizeof(float);
      std::byte* values = scratch.values + i * bytes;
      tile_kernels_->transpose_tile(k_tiles[i], problem.v_dim, values);
      v_tiles[i] = values;
    } else {
      v_tiles[i] = arena + layout.VTileOffset(problem.layer, page, item.kv_head, in_page);
    }
    k_scales[i] = reinterpret_cast<const float*>(k_tiles[i] + layout.k_scales_at);
    v_scales[i] = problem.values_in_keys
                      ? k_scales[i]
                      : reinterpret_cast<const float*>(v_tiles[i] + layout.v_scales_at);
  }
  uint32_t begins[kMaxQueries];
  uint32_t ends[kMaxQueries];
  for (uint32_t i = 0; i < item.n_queries(); ++i) {
    const uint32_t position = block.end - block.n_rows + i / item.n_heads;
    begins[i] =
        problem.window != 0 && position + 1 > problem.window ? position + 1 - problem.window : 0;
    ends[i] = position + 1;
  }
  AttentionSplitArgs args;
  args.k_tiles = k_tiles;
  args.v_tiles = v_tiles;
  args.k_scales = k_scales;
  args.v_scales = v_scales;
  args.n_tiles = end - first;
  args.first_token = first * kTileTokens;
  args.queries = scratch.queries;
  args.query_pairs = PreparesQueries(*tile_kernels_, layout.k_dim, problem.v_dim);
  args.query_stride = static_cast<uint32_t>(sizes_.query_stride);
  args.n_queries = item.n_queries();
  args.begin = begins;
  args.end = ends;
  args.k_dim = layout.k_dim;
  args.k_first_part = layout.k_parts.size() > 1 ? layout.k_parts[1].offset : layout.k_dim;
  args.v_dim = problem.v_dim;
  args.scale = problem.scale;
  args.scores = scratch.scores;
  args.max = out.max;
  args.sum = out.sum;
  args.acc = out.acc;
  args.acc_stride = static_cast<uint32_t>(sizes_.acc_stride);
  tile_kernels_->attend_split(args);
  thread_work.bytes += args.n_tiles * (layout.k_tile_bytes + layout.v_tile_bytes);
  if (item.counts) thread_counts_[static_cast<size_t>(thread)].tiles += args.n_tiles * block.n_rows;
}

void CpuAttention::Start(const Item& item, const Partial& state) const {
  const uint32_t n = item.n_queries();
  std::fill_n(state.max, n, -std::numeric_limits<float>::infinity());
  std::fill_n(state.sum, n, 0.0f);
  std::fill_n(state.acc, n * sizes_.acc_stride, 0.0f);
}

void CpuAttention::Merge(const Problem& problem, const Item& item, const Partial& state,
                         const Partial& split) const {
  AttentionMergeArgs args;
  args.max = state.max;
  args.sum = state.sum;
  args.acc = state.acc;
  args.split_max = split.max;
  args.split_sum = split.sum;
  args.split_acc = split.acc;
  args.n_queries = item.n_queries();
  args.acc_stride = static_cast<uint32_t>(sizes_.acc_stride);
  args.v_dim = problem.v_dim;
  kernels_->merge_split(args);
}

void CpuAttention::Finish(const Problem& problem, const Item& item, const Partial& state) const {
  for (uint32_t i = 0; i < item.n_queries(); ++i) {
    const uint32_t row = item.block->first_row + i / item.n_heads - problem.first_row;
    const uint32_t head = item.first_head + i % item.n_heads;
    kernels_->finish(state.acc + i * sizes_.acc_stride, state.sum[i], problem.v_dim,
                     problem.out.row(row) + head * problem.out_head_stride);
  }
}

}  // namespace hadal
