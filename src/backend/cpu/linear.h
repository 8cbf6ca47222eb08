// Matrix products on threads: preparing activations, cutting the work into blocks of rows and runs
// of panels. The arithmetic, and why its order never depends on the batch:
// kernels/linear_kernels.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/attention.h"
#include "backend/cpu/cpu_weight.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"

namespace hadal {

// Used by the backend's thread alone. Nothing throws or allocates but Reserve.
class CpuLinear {
 public:
  // Both must outlive this.
  CpuLinear(ThreadPool* pool, const KernelTable* kernels);

  uint64_t WorkspaceBytes(const ModelSpec& spec, const StepLimits& limits) const;
  // Throws Error(kResource).
  void Reserve(const ModelSpec& spec, const StepLimits& limits);

  // As in backend.h.
  void Group(Tensor x, std::span<const LinearArgs> linears);
  void Moe(Tensor x, std::span<const ExpertWeights> experts, Routing routing, Tensor out);
  // One matrix per head (backend/cpu/attention.h).
  void Heads(const HeadLinearArgs& args);

 private:
  // Weights whose inputs have equal keys can share prepared rows.
  struct InputKey {
    ActivationForm form;
    const uint32_t* permutation = nullptr;  // the columns' order, null: as they are
    friend bool operator==(const InputKey&, const InputKey&) = default;
  };
  struct Prepared {
    const std::byte* rows = nullptr;
    uint64_t row_bytes = 0;
    ActivationLayout layout;
  };
  // Rows of floats: row i is data + (ids ? ids[i] : i) * stride.
  struct Rows {
    const float* data = nullptr;
    uint64_t stride = 0;
    uint32_t rows = 0;
    uint32_t cols = 0;
    const uint32_t* ids = nullptr;

    const float* row(uint32_t i) const {
      return data + uint64_t{ids != nullptr ? ids[i] : i} * stride;
    }
  };
  // One matrix with its input and output.
  struct Product {
    const PanelMatrix* matrix = nullptr;
    Prepared x;
    const float* bias = nullptr;
    float* out = nullptr;
    uint64_t out_stride = 0;
    uint32_t chunk_panels = 0;  // panels per piece of work
    uint32_t first_item = 0;    // pieces of the products before it
  };
  // The experts [first, last) share their input keys, and there is room for their pairs' rows.
  struct ExpertRun {
    size_t first = 0, last = 0;
    InputKey gate, up, down;
  };
  // Sizes in bytes, each a multiple of 64.
  struct Sizes {
    uint64_t input = 0;   // prepared rows of a product
    uint64_t hidden = 0;  // MoE: [pairs, intermediate] f32
    uint64_t hidden_input = 0;
    uint64_t thread = 0;  // scratch of one thread
    uint64_t pairs = 0;   // (token, expert) pairs of a step
    uint64_t experts = 0;
    uint64_t arena = 0;
  };
  struct FreeArena {
    uint64_t bytes;
    void operator()(std::byte* data) const;
  };

  Sizes SizesFor(const ModelSpec& spec, const StepLimits& limits) const;
  InputKey KeyOf(const PanelMatrix& matrix) const;
  // Of a row in a buffer of ours, where f32 rows are copied to as they are.
  static uint64_t PreparedRowBytes(const InputKey& key, uint32_t cols);
  Prepared Prepare(const Rows& x, const InputKey& key, std::byte* buffer, uint64_t buffer_bytes);
  void PrepareOne(const Rows& x, const InputKey& key, const Prepared& to, uint32_t row, int thread);
  LinearTask TaskFor(const PanelMatrix& matrix, const Prepared& x, uint32_t panel,
                     uint32_t n_panels) const;
  // Multiplies products_ with n_rows rows each, all in one parallel region.
  void RunProducts(uint32_t n_rows);
  void RunHeads(const HeadLinearArgs& args, uint32_t first_row, uint32_t n_rows);
  std::byte* ThreadScratch(int thread) const;

  // MoE.
  static uint64_t MoeScratchBytes();
  void SortPairs(uint32_t n_tokens, size_t n_experts, const Routing& routing);
  ExpertRun NextRun(std::span<const ExpertWeights> experts, size_t first, uint32_t cols) const;
  void RunExperts(const Rows& x, std::span<const ExpertWeights> experts, const ExpertRun& run,
                  Tensor out);
  void GateUp(std::span<const ExpertWeights> experts, const ExpertRun& run, const Prepared& gate,
              const Prepared& up);
  void Down(std::span<const ExpertWeights> experts, const ExpertRun& run, const Prepared& hidden,
            Tensor out);

  ThreadPool* pool_;
  const KernelTable* kernels_;
  Sizes sizes_;
  std::unique_ptr<std::byte, FreeArena> arena_;
  std::byte* input_ = nullptr;
  std::byte* hidden_ = nullptr;
  std::byte* hidden_input_ = nullptr;
  std::byte* threads_ = nullptr;
  std::vector<Product> products_;
  // (token, expert) pairs of a step, by expert, tokens ascending.
  std::vector<uint32_t> pair_token_;
  std::vector<float> pair_weight_;
  std::vector<uint32_t> expert_first_;  // [experts + 1]
  std::vector<uint32_t> busy_;          // experts of a run that have tokens
};

}  // namespace hadal
