// The experts of a layer: four parallel regions whatever their number.
//
// Tokens are sorted by expert. Gate and up run side by side and meet in silu(gate) * up; down runs
// by output columns, adding expert after expert in ascending order, so that a token's sum has one
// order whoever shares the step.
#include <algorithm>

#include "backend/cpu/linear.h"
#include "base/check.h"

namespace hadal {
namespace {

// Rows and panels of the tiles in thread scratch: gate and up, or what down adds.
constexpr uint32_t kTileRows = 48;
constexpr uint32_t kTilePanels = 4;
constexpr uint32_t kTileCols = kTilePanels * kPanelRows;
constexpr uint64_t kTileFloats = uint64_t{kTileRows} * kTileCols;

uint32_t TileChunks(uint64_t rows) {
  return static_cast<uint32_t>((rows + kTileCols - 1) / kTileCols);
}

}  // namespace

uint64_t CpuLinear::MoeScratchBytes() {
  return 2 * kTileFloats * sizeof(float);
}

void CpuLinear::SortPairs(uint32_t n_tokens, size_t n_experts, const Routing& routing) {
  const size_t pairs = size_t{n_tokens} * routing.n_used;
  HADAL_CHECK(pairs <= sizes_.pairs && n_experts <= sizes_.experts);
  expert_first_.assign(n_experts + 1, 0);
  for (size_t i = 0; i < pairs; ++i) ++expert_first_[static_cast<size_t>(routing.experts[i])];
  uint32_t sum = 0;
  for (uint32_t& first : expert_first_) {
    const uint32_t count = first;
    first = sum;
    sum += count;
  }
  // first[e] moves to its end while filling, which is first[e + 1]: shifted back below.
  pair_token_.resize(pairs);
  pair_weight_.resize(pairs);
  for (size_t i = 0; i < pairs; ++i) {
    const uint32_t at = expert_first_[static_cast<size_t>(routing.experts[i])]++;
    pair_token_[at] = static_cast<uint32_t>(i / routing.n_used);
    pair_weight_[at] = routing.weights[i];
  }
  for (size_t e = n_experts; e > 0; --e) expert_first_[e] = expert_first_[e - 1];
  expert_first_[0] = 0;
}

CpuLinear::ExpertRun CpuLinear::NextRun(std::span<const ExpertWeights> experts, size_t first,
                                        uint32_t cols) const {
  const auto keys = [&](size_t e) {
    return ExpertRun{e, e + 1, KeyOf(AsCpu(*experts[e].gate).matrix()),
                     KeyOf(AsCpu(*experts[e].up).matrix()),
                     KeyOf(AsCpu(*experts[e].down).matrix())};
  };
  ExpertRun run = keys(first);
  uint64_t pair_bytes = PreparedRowBytes(run.gate, cols);
  if (run.up != run.gate) pair_bytes += PreparedRowBytes(run.up, cols);
  const uint64_t pairs = sizes_.input / pair_bytes;
  while (run.last < experts.size()) {
    const ExpertRun next = keys(run.last);
    if (next.gate != run.gate || next.up != run.up || next.down != run.down) break;
    if (expert_first_[next.last] - expert_first_[first] > pairs) break;
    ++run.last;
  }
  return run;
}

void CpuLinear::Moe(Tensor x, std::span<const ExpertWeights> experts, Routing routing, Tensor out) {
  HADAL_CHECK(out.rows == x.rows && !experts.empty());
  SortPairs(x.rows, experts.size(), routing);
  for (uint32_t i = 0; i < out.rows; ++i) std::fill_n(out.row(i), out.cols, 0.0f);
  const Rows rows{x.data, x.stride, x.rows, x.cols, nullptr};
  for (size_t first = 0; first < experts.size();) {
    const ExpertRun run = NextRun(experts, first, x.cols);
    RunExperts(rows, experts, run, out);
    first = run.last;
  }
}

void CpuLinear::RunExperts(const Rows& x, std::span<const ExpertWeights> experts,
                           const ExpertRun& run, Tensor out) {
  busy_.clear();
  for (size_t e = run.first; e < run.last; ++e) {
    if (expert_first_[e] < expert_first_[e + 1]) busy_.push_back(static_cast<uint32_t>(e));
  }
  if (busy_.empty()) return;
  const uint32_t first_pair = expert_first_[run.first];
  const uint32_t n_pairs = expert_first_[run.last] - first_pair;
  const Rows inputs{x.data, x.stride, n_pairs, x.cols, pair_token_.data() + first_pair};
  const Prepared gate = Prepare(inputs, run.gate, input_, sizes_.input);
  Prepared up = gate;
  if (run.up != run.gate) {
    const uint64_t taken = n_pairs * gate.row_bytes;
    up = Prepare(inputs, run.up, input_ + taken, sizes_.input - taken);
  }
  GateUp(experts, run, gate, up);
  const auto width = static_cast<uint32_t>(AsCpu(*experts[run.first].gate).matrix().rows());
  const Rows hidden{reinterpret_cast<const float*>(hidden_) + uint64_t{first_pair} * width, width,
                    n_pairs, width, nullptr};
  const Prepared down = Prepare(hidden, run.down, hidden_input_, sizes_.hidden_input);
  Down(experts, run, down, out);
}

void CpuLinear::GateUp(std::span<const ExpertWeights> experts, const ExpertRun& run,
                       const Prepared& gate, const Prepared& up) {
  const uint64_t width = AsCpu(*experts[run.first].gate).matrix().rows();
  HADAL_CHECK(pair_token_.size() * width * sizeof(float) <= sizes_.hidden);
  const uint32_t first_pair = expert_first_[run.first];
  const uint32_t chunks = TileChunks(width);
  pool_->ParallelFor(static_cast<int64_t>(busy_.size()) * chunks, [&](int64_t item, int thread) {
    const uint32_t e = busy_[static_cast<size_t>(item / chunks)];
    const uint32_t panel = static_cast<uint32_t>(item % chunks) * kTilePanels;
    const PanelMatrix& gate_matrix = AsCpu(*experts[e].gate).matrix();
    const PanelMatrix& up_matrix = AsCpu(*experts[e].up).matrix();
    HADAL_CHECK(gate_matrix.rows() == width && up_matrix.rows() == width);
    auto* gate_tile = reinterpret_cast<float*>(ThreadScratch(thread));
    float* up_tile = gate_tile + kTileFloats;
    LinearTask gate_task = TaskFor(gate_matrix, gate, panel, kTilePanels);
    LinearTask up_task = TaskFor(up_matrix, up, panel, kTilePanels);
    gate_task.out = gate_tile;
    up_task.out = up_tile;
    gate_task.out_stride = up_task.out_stride = kTileCols;
    for (uint32_t pair = expert_first_[e]; pair < expert_first_[e + 1]; pair += kTileRows) {
      const uint32_t n = std::min(kTileRows, expert_first_[e + 1] - pair);
      gate_task.n_rows = up_task.n_rows = n;
      gate_task.rows = gate.rows + (pair - first_pair) * gate.row_bytes;
      up_task.rows = up.rows + (pair - first_pair) * up.row_bytes;
      kernels_->linear.linear(gate_matrix.format(), gate_task);
      kernels_->linear.linear(up_matrix.format(), up_task);
      for (uint32_t i = 0; i < n; ++i) {
        float* hidden = reinterpret_cast<float*>(hidden_) + (pair + uint64_t{i}) * width +
                        uint64_t{panel} * kPanelRows;
        kernels_->elementwise.glu(gate_tile + uint64_t{i} * kTileCols,
                                  up_tile + uint64_t{i} * kTileCols, gate_task.out_cols, hidden);
      }
    }
  });
}

void CpuLinear::Down(std::span<const ExpertWeights> experts, const ExpertRun& run,
                     const Prepared& hidden, Tensor out) {
  const uint32_t first_pair = expert_first_[run.first];
  pool_->ParallelFor(TileChunks(out.cols), [&](int64_t item, int thread) {
    const uint32_t panel = static_cast<uint32_t>(item) * kTilePanels;
    auto* tile = reinterpret_cast<float*>(ThreadScratch(thread));
    for (const uint32_t e : busy_) {
      const PanelMatrix& matrix = AsCpu(*experts[e].down).matrix();
      HADAL_CHECK(matrix.rows() == out.cols);
      LinearTask task = TaskFor(matrix, hidden, panel, kTilePanels);
      task.out = tile;
      task.out_stride = kTileCols;
      for (uint32_t pair = expert_first_[e]; pair < expert_first_[e + 1]; pair += kTileRows) {
        task.n_rows = std::min(kTileRows, expert_first_[e + 1] - pair);
        task.rows = hidden.rows + (pair - first_pair) * hidden.row_bytes;
        kernels_->linear.linear(matrix.format(), task);
        for (uint32_t i = 0; i < task.n_rows; ++i) {
          const float* y = tile + uint64_t{i} * kTileCols;
          const float weight = pair_weight_[pair + i];
          float* sum = out.row(pair_token_[pair + i]) + uint64_t{panel} * kPanelRows;
          for (uint32_t c = 0; c < task.out_cols; ++c) sum[c] += weight * y[c];
        }
      }
    }
  });
}

}  // namespace hadal
