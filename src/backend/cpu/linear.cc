#include "backend/cpu/linear.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/check.h"
#include "base/error.h"

namespace hadal {
namespace {

// Prepared rows of a block: half of a 2 MiB second-level cache, beside the weights passing through.
constexpr uint64_t kBlockBytes = 1 << 20;
constexpr uint32_t kMinBlockRows = 96;
constexpr uint32_t kRowTile = 48;  // blocks are whole tiles, which have 4, 6, 12 or 16 rows
// Weights of one piece of work: long enough to stream, short enough to share out evenly.
constexpr uint64_t kChunkBytes = 128 << 10;
constexpr uint64_t kPiecesPerThread = 4;
constexpr uint32_t kPanelTile = 4;
// Elements below which preparing in the calling thread beats waking the others.
constexpr uint64_t kSerialPrepare = 4096;
// Prepared rows of all heads (MLA) and of (token, expert) pairs (MoE) held at a time, but no fewer
// than those of a token and of an expert.
constexpr uint64_t kInputBytes = 8 << 20;
constexpr size_t kMaxGroup = 16;

constexpr uint64_t Line(uint64_t bytes) {
  return AlignUp(bytes, 64);
}

uint32_t ChunkPanels(const PanelMatrix& matrix, uint64_t total_panels, int threads) {
  const uint64_t fit = kChunkBytes / matrix.panel_bytes();
  const uint64_t share = total_panels / (kPiecesPerThread * static_cast<uint64_t>(threads));
  return static_cast<uint32_t>(AlignUp(std::max<uint64_t>(std::min(fit, share), 1), kPanelTile));
}

uint32_t Chunks(const PanelMatrix& matrix, uint32_t chunk_panels) {
  return static_cast<uint32_t>((matrix.panels() + chunk_panels - 1) / chunk_panels);
}

// The widest input of any product of the model.
uint32_t MaxInput(const ModelSpec& spec) {
  const AttentionSpec& a = spec.attention;
  const uint32_t head_out = a.kind == AttentionKind::kMla ? a.v_head_dim : a.head_dim;
  uint32_t most = std::max(
      {spec.hidden, spec.intermediate, a.n_heads * head_out, a.q_lora_rank, a.kv_lora_rank});
  if (spec.moe) most = std::max({most, spec.moe->intermediate, spec.moe->shared_intermediate});
  return most;
}

uint64_t HeadRowBytes(const LinearKernels& kernels, const AttentionSpec& a) {
  return uint64_t{a.n_heads} *
         MaxActivationRowBytes(kernels, std::max(a.qk_nope_head_dim, a.kv_lora_rank));
}

}  // namespace

void CpuLinear::FreeArena::operator()(std::byte* data) const {
  munmap(data, bytes);
}

CpuLinear::CpuLinear(ThreadPool* pool, const KernelTable* kernels)
    : pool_(pool), kernels_(kernels) {}

CpuLinear::Sizes CpuLinear::SizesFor(const ModelSpec& spec, const StepLimits& limits) const {
  Sizes sizes;
  const uint64_t rows = std::max(limits.max_tokens, limits.max_logit_rows);
  const uint32_t input = MaxInput(spec);
  sizes.input = Line(rows * MaxActivationRowBytes(kernels_->linear, input));
  if (spec.attention.kind == AttentionKind::kMla) {
    const uint64_t row = HeadRowBytes(kernels_->linear, spec.attention);
    sizes.input = std::max(sizes.input, Line(std::max(row, std::min(kInputBytes, rows * row))));
  }
  sizes.thread = Line(uint64_t{4} * input);  // a permuted row
  if (spec.moe) {
    sizes.experts = spec.moe->n_experts;
    sizes.pairs = rows * spec.moe->n_used;
    sizes.hidden = Line(sizes.pairs * spec.moe->intermediate * 4);
    sizes.hidden_input =
        Line(sizes.pairs * MaxActivationRowBytes(kernels_->linear, spec.moe->intermediate));
    sizes.thread = std::max(sizes.thread, MoeScratchBytes());
    const uint64_t row = std::max<uint64_t>(Line(uint64_t{4} * spec.hidden),
                                            MaxActivationRowBytes(kernels_->linear, spec.hidden));
    // An expert has a pair of every token at most; its gate and its up may want unequal forms.
    sizes.input = std::max(
        sizes.input, Line(std::max(2 * rows * row, std::min(kInputBytes, sizes.pairs * row))));
  }
  sizes.arena = sizes.input + sizes.hidden + sizes.hidden_input +
                static_cast<uint64_t>(pool_->size()) * sizes.thread;
  return sizes;
}

uint64_t CpuLinear::WorkspaceBytes(const ModelSpec& spec, const StepLimits& limits) const {
  return SizesFor(spec, limits).arena;
}

void CpuLinear::Reserve(const ModelSpec& spec, const StepLimits& limits) {
  arena_.reset();
  sizes_ = SizesFor(spec, limits);
  void* data =
      mmap(nullptr, sizes_.arena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    Fail(ErrorKind::kResource, "no memory for {} MiB of working space; lower the tokens per step",
         sizes_.arena >> 20);
  }
  madvise(data, sizes_.arena, MADV_HUGEPAGE);
  arena_ =
      std::unique_ptr<std::byte, FreeArena>(static_cast<std::byte*>(data), FreeArena{sizes_.arena});
  input_ = arena_.get();
  hidden_ = input_ + sizes_.input;
  hidden_input_ = hidden_ + sizes_.hidden;
  threads_ = hidden_input_ + sizes_.hidden_input;
  products_.reserve(std::max<size_t>(kMaxGroup, spec.attention.n_heads));
  pair_token_.reserve(sizes_.pairs);
  pair_weight_.reserve(sizes_.pairs);
  expert_first_.reserve(sizes_.experts + 1);
  busy_.reserve(sizes_.experts);
}

std::byte* CpuLinear::ThreadScratch(int thread) const {
  return threads_ + static_cast<uint64_t>(thread) * sizes_.thread;
}

CpuLinear::InputKey CpuLinear::KeyOf(const PanelMatrix& matrix) const {
  InputKey key{FormFor(kernels_->linear, matrix.format()), nullptr};
  if (!matrix.column_permutation().empty()) key.permutation = matrix.column_permutation().data();
  return key;
}

uint64_t CpuLinear::PreparedRowBytes(const InputKey& key, uint32_t cols) {
  return key.form.kind == ActivationKind::kF32 ? Line(uint64_t{4} * cols)
                                               : LayoutFor(key.form, cols).row_bytes;
}

CpuLinear::Prepared CpuLinear::Prepare(const Rows& x, const InputKey& key, std::byte* buffer,
                                       uint64_t buffer_bytes) {
  Prepared to;
  if (key.form.kind == ActivationKind::kF32) {
    HADAL_CHECK(key.permutation == nullptr);
    if (x.ids == nullptr) {
      to.rows = reinterpret_cast<const std::byte*>(x.data);
      to.row_bytes = x.stride * sizeof(float);
      return to;
    }
  }
  to.layout = LayoutFor(key.form, x.cols);
  to.row_bytes = PreparedRowBytes(key, x.cols);
  to.rows = buffer;
  HADAL_CHECK(buffer != nullptr && uint64_t{x.rows} * to.row_bytes <= buffer_bytes);
  const uint64_t per_item = std::max<uint64_t>(kSerialPrepare / x.cols, 1);
  const auto items = static_cast<int64_t>((x.rows + per_item - 1) / per_item);
  pool_->ParallelFor(items, [&](int64_t item, int thread) {
    const uint64_t first = static_cast<uint64_t>(item) * per_item;
    const uint64_t end = std::min<uint64_t>(first + per_item, x.rows);
    for (uint64_t row = first; row < end; ++row) {
      PrepareOne(x, key, to, static_cast<uint32_t>(row), thread);
    }
  });
  return to;
}

void CpuLinear::PrepareOne(const Rows& x, const InputKey& key, const Prepared& to, uint32_t row,
                           int thread) {
  PrepareRow args;
  args.x = x.row(row);
  args.out = const_cast<std::byte*>(to.rows) + row * to.row_bytes;
  if (key.form.kind == ActivationKind::kF32) {
    std::memcpy(args.out, args.x, x.cols * sizeof(float));
    return;
  }
  args.form = key.form;
  args.layout = to.layout;
  if (key.permutation != nullptr) {
    auto* gathered = reinterpret_cast<float*>(ThreadScratch(thread));
    for (uint32_t k = 0; k < x.cols; ++k) gathered[k] = args.x[key.permutation[k]];
    args.x = gathered;
  }
  kernels_->linear.prepare(args);
}

LinearTask CpuLinear::TaskFor(const PanelMatrix& matrix, const Prepared& x, uint32_t panel,
                              uint32_t n_panels) const {
  LinearTask task;
  task.panels = matrix.panel(panel);
  task.panel_bytes = matrix.panel_bytes();
  task.n_panels = static_cast<uint32_t>(std::min<uint64_t>(n_panels, matrix.panels() - panel));
  task.cols = static_cast<uint32_t>(matrix.cols());
  task.chunks = static_cast<uint32_t>(matrix.chunks());
  task.scale_block = matrix.format().scale_block;
  task.rows = x.rows;
  task.row_bytes = x.row_bytes;
  task.scale_at = x.layout.scale_at;
  task.sum_at = x.layout.sum_at;
  task.out_cols = static_cast<uint32_t>(std::min<uint64_t>(
      uint64_t{task.n_panels} * kPanelRows, matrix.rows() - uint64_t{panel} * kPanelRows));
  return task;
}

void CpuLinear::RunProducts(uint32_t n_rows) {
  uint32_t items = 0;
  uint64_t row_bytes = 64;
  uint64_t panels = 0;
  for (const Product& product : products_) panels += product.matrix->panels();
  for (Product& product : products_) {
    product.chunk_panels = ChunkPanels(*product.matrix, panels, pool_->size());
    product.first_item = items;
    items += Chunks(*product.matrix, product.chunk_panels);
    row_bytes = std::max(row_bytes, product.x.row_bytes);
  }
  const uint32_t fit = static_cast<uint32_t>(kBlockBytes / row_bytes) / kRowTile * kRowTile;
  const uint32_t block = std::max(fit, kMinBlockRows);
  const uint32_t blocks = (n_rows + block - 1) / block;
  pool_->ParallelFor(int64_t{blocks} * items, [&](int64_t index, int /*thread*/) {
    const auto item = static_cast<uint32_t>(index % items);
    const auto first_row = static_cast<uint32_t>(index / items) * block;
    const auto next =
        std::upper_bound(products_.begin(), products_.end(), item,
                         [](uint32_t i, const Product& p) { return i < p.first_item; });
    const Product& product = *(next - 1);
    const uint32_t panel = (item - product.first_item) * product.chunk_panels;
    LinearTask task = TaskFor(*product.matrix, product.x, panel, product.chunk_panels);
    task.rows += first_row * task.row_bytes;
    task.n_rows = std::min(block, n_rows - first_row);
    task.out = product.out + first_row * product.out_stride + uint64_t{panel} * kPanelRows;
    task.out_stride = product.out_stride;
    if (product.bias != nullptr) task.bias = product.bias + uint64_t{panel} * kPanelRows;
    kernels_->linear.linear(product.matrix->format(), task);
  });
}

void CpuLinear::Group(Tensor x, std::span<const LinearArgs> linears) {
  HADAL_CHECK(linears.size() <= kMaxGroup);
  const Rows rows{x.data, x.stride, x.rows, x.cols, nullptr};
  bool done[kMaxGroup] = {};
  for (size_t i = 0; i < linears.size(); ++i) {
    if (done[i]) continue;
    const InputKey key = KeyOf(AsCpu(*linears[i].weight).matrix());
    const Prepared prepared = Prepare(rows, key, input_, sizes_.input);
    products_.clear();
    for (size_t j = i; j < linears.size(); ++j) {
      const LinearArgs& linear = linears[j];
      const PanelMatrix& matrix = AsCpu(*linear.weight).matrix();
      if (done[j] || KeyOf(matrix) != key) continue;
      done[j] = true;
      HADAL_CHECK(matrix.cols() == x.cols && matrix.rows() == linear.out.cols);
      HADAL_CHECK(linear.out.rows == x.rows);
      Product product;
      product.matrix = &matrix;
      product.x = prepared;
      if (linear.bias != nullptr) product.bias = AsCpu(*linear.bias).vector();
      product.out = linear.out.data;
      product.out_stride = linear.out.stride;
      products_.push_back(product);
    }
    RunProducts(x.rows);
  }
}

void CpuLinear::Heads(const HeadLinearArgs& args) {
  const uint64_t row = uint64_t{args.heads} * MaxActivationRowBytes(kernels_->linear, args.in_dim);
  const auto fit = static_cast<uint32_t>(std::max<uint64_t>(sizes_.input / row, 1));
  for (uint32_t first = 0; first < args.x.rows; first += fit) {
    RunHeads(args, first, std::min(fit, args.x.rows - first));
  }
}

void CpuLinear::RunHeads(const HeadLinearArgs& args, uint32_t first_row, uint32_t n_rows) {
  const std::vector<PanelMatrix>& matrices = AsCpu(*args.weight).matrices();
  HADAL_CHECK(matrices.size() == args.heads && args.heads <= products_.capacity());
  HADAL_CHECK(matrices[0].rows() == args.out_dim && matrices[0].cols() == args.in_dim);
  // The heads of a token lie x_head_stride apart; rows are prepared [head][token].
  const InputKey key = KeyOf(matrices[0]);
  HADAL_CHECK(key.permutation == nullptr);
  const ActivationLayout layout = LayoutFor(key.form, args.in_dim);
  products_.clear();
  for (uint32_t head = 0; head < args.heads; ++head) {
    const float* x = args.x.row(first_row) + uint64_t{head} * args.x_head_stride;
    Product product;
    product.matrix = &matrices[head];
    product.x.layout = layout;
    if (key.form.kind == ActivationKind::kF32) {
      product.x.rows = reinterpret_cast<const std::byte*>(x);
      product.x.row_bytes = uint64_t{args.x.stride} * sizeof(float);
    } else {
      product.x.rows = input_ + uint64_t{head} * n_rows * layout.row_bytes;
      product.x.row_bytes = layout.row_bytes;
    }
    product.out = args.out.row(first_row) + uint64_t{head} * args.out_head_stride;
    product.out_stride = args.out.stride;
    products_.push_back(product);
  }
  if (key.form.kind != ActivationKind::kF32) {
    HADAL_CHECK(uint64_t{args.heads} * n_rows * layout.row_bytes <= sizes_.input);
    const auto prepare = [&](int64_t head, int thread) {
      const Rows x{args.x.row(first_row) + head * args.x_head_stride, args.x.stride, n_rows,
                   args.in_dim};
      for (uint32_t row = 0; row < n_rows; ++row) {
        PrepareOne(x, key, products_[static_cast<size_t>(head)].x, row, thread);
      }
    };
    if (uint64_t{args.heads} * n_rows * args.in_dim <= kSerialPrepare) {
      for (uint32_t head = 0; head < args.heads; ++head) prepare(head, 0);
    } else {
      pool_->ParallelFor(args.heads, prepare);
    }
  }
  RunProducts(n_rows);
}

}  // namespace hadal
