// Attention over KV pages for ragged batches: which queries meet which tiles, on which thread.
// The arithmetic, and why its order never depends on the batch: kernels/attention_kernels.h.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "base/thread_pool.h"
#include "kernels/attention_kernels.h"

namespace hadal {

// A matrix per head: out[row][head] = weight[head] x[row][head], where head h of a row starts at
// h * x_head_stride and h * out_head_stride.
struct HeadLinearArgs {
  const Weight* weight = nullptr;  // stack of heads: [heads * out_dim, in_dim]
  uint32_t heads = 0, in_dim = 0, out_dim = 0;
  Tensor x;
  uint32_t x_head_stride = 0;
  Tensor out;
  uint32_t out_head_stride = 0;
};

// Used by the backend's thread alone. Nothing throws or allocates but Reserve.
class CpuAttention {
 public:
  // Both must outlive this.
  CpuAttention(ThreadPool* pool, const AttentionKernels* kernels);

  uint64_t WorkspaceBytes(const ModelSpec& spec, const StepLimits& limits) const;
  // Throws std::bad_alloc.
  void Reserve(const ModelSpec& spec, const StepLimits& limits);

  void Gqa(const StepInput& step, const KvCache& kv, const AttentionGqaArgs& args);

  // head_linear(const HeadLinearArgs&) applies k_up and v_up. Long steps go by some rows at a time,
  // so that the latent queries of all heads need little memory.
  template <typename HeadLinear>
  void Mla(const StepInput& step, const KvCache& kv, const AttentionMlaArgs& args,
           HeadLinear&& head_linear) {
    const uint32_t q_head = args.nope + args.rope;
    for (uint32_t first = 0; first < args.q.rows; first += latent_rows_) {
      const uint32_t rows = std::min(latent_rows_, args.q.rows - first);
      const Tensor q(args.q.row(first), rows, args.q.cols, args.q.stride);
      const Tensor out(args.out.row(first), rows, args.out.cols, args.out.stride);
      const Tensor latent(latent_, rows, args.heads * args.kv_lora);
      head_linear(HeadLinearArgs{args.k_up, args.heads, args.nope, args.kv_lora, q, q_head, latent,
                                 args.kv_lora});
      Latent(step, kv, args, first, q, latent);
      head_linear(HeadLinearArgs{args.v_up, args.heads, args.kv_lora, args.v_head_dim, latent,
                                 args.kv_lora, out, args.v_head_dim});
    }
  }

  // OpCounters::attention_tiles.
  uint64_t tiles() const { return tiles_; }

 private:
  // Elements [offset, offset + n) of a packed query come from x[row][head * head_stride + first..).
  struct QueryPart {
    Tensor x;
    uint32_t head_stride = 0, first = 0, n = 0, offset = 0;
  };
  // What GQA and MLA have in common. Tensors hold rows [first_row, first_row + n_rows) of the step.
  struct Problem {
    const StepInput* step = nullptr;
    const KvCache* kv = nullptr;
    uint32_t layer = 0, window = 0;
    float scale = 0;
    uint32_t first_row = 0, n_rows = 0;
    QueryPart parts[2];
    uint32_t n_parts = 0;
    Tensor out;
    uint32_t out_head_stride = 0;
    uint32_t kv_heads = 0, heads_per_kv = 0;
    uint32_t v_dim = 0;
    bool values_in_keys = false;
  };
  // Neighbouring rows of one sequence that go together.
  struct Block {
    uint32_t sequence = 0, first_row = 0, n_rows = 0;
    uint32_t begin = 0, end = 0;  // tokens that any of its rows sees
    uint32_t first_split() const { return begin / kSplitTokens; }
    uint32_t n_splits() const { return (end - 1) / kSplitTokens - first_split() + 1; }
  };
  // A block with some heads of one KV head: at most kMaxQueries queries, query i being head
  // first_head + i % n_heads of row block->first_row + i / n_heads.
  struct Item {
    const Block* block = nullptr;
    uint32_t kv_head = 0, first_head = 0, n_heads = 0;
    bool counts = false;  // the first of those that share the block and the KV head
    uint32_t n_queries() const { return block->n_rows * n_heads; }
  };
  // Results of some queries over a part of the context.
  struct Partial {
    float* max = nullptr;
    float* sum = nullptr;
    float* acc = nullptr;
  };
  struct Unit {
    uint32_t item = 0, split = 0;
  };
  // Sizes, in floats, that the workspace is cut by.
  struct Sizes {
    uint64_t query_stride = 0, acc_stride = 0;
    uint64_t thread = 0;  // scratch of one thread
    uint64_t shared = 0;  // partial results of a wave
    uint64_t latent = 0;
    uint32_t latent_rows = 0;
    uint64_t total = 0;
  };
  struct Scratch {
    float* queries = nullptr;
    float* scores = nullptr;
    Partial split, state;
    std::byte* values = nullptr;
  };
  struct alignas(64) ThreadCount {
    uint64_t tiles = 0;
  };
  struct AlignedDelete {
    void operator()(float* data) const;
  };

  Sizes SizesFor(const ModelSpec& spec, const StepLimits& limits) const;
  Scratch ScratchOf(int thread) const;
  Partial PartialAt(float* base, uint32_t n_queries) const;
  uint64_t PartialFloats(uint32_t n_queries) const;

  void Latent(const StepInput& step, const KvCache& kv, const AttentionMlaArgs& args,
              uint32_t first_row, Tensor q, Tensor latent);
  void Run(const Problem& problem);
  void MakeBlocks(const Problem& problem);
  void RunWhole(const Problem& problem);
  void RunWaves(const Problem& problem);
  void MergeWave(const Problem& problem, uint32_t item, uint32_t first_unit, uint32_t n_slots);
  uint32_t NextWave(Unit& next, uint32_t n_slots);

  uint32_t n_items() const { return static_cast<uint32_t>(blocks_.size()) * items_per_block_; }
  Item ItemAt(const Problem& problem, uint32_t index) const;
  void Pack(const Problem& problem, const Item& item, float* queries) const;
  void Attend(const Problem& problem, const Item& item, uint32_t split, const Scratch& scratch,
              const Partial& out, int thread);
  void Start(const Item& item, const Partial& state) const;
  void Merge(const Problem& problem, const Item& item, const Partial& state,
             const Partial& split) const;
  void Finish(const Problem& problem, const Item& item, const Partial& state) const;

  ThreadPool* pool_;
  const AttentionKernels* kernels_;
  const AttentionTileKernels* tile_kernels_ = nullptr;  // of the KV type of the step at hand
  Sizes sizes_;
  std::unique_ptr<float[], AlignedDelete> workspace_;
  float* shared_ = nullptr;
  float* latent_ = nullptr;
  uint32_t latent_rows_ = 0;
  uint64_t tiles_ = 0;
  std::vector<ThreadCount> thread_counts_;  // [threads]
  // Of the op at hand; capacity reserved.
  std::vector<Block> blocks_;
  std::vector<Unit> units_;
  uint32_t head_groups_ = 1;      // items that share a block and a KV head
  uint32_t items_per_block_ = 1;  // kv_heads * head_groups
  uint32_t block_queries_ = 1;    // most queries of an item
};

}  // namespace hadal
