// The CPU backend: panels for weights, the kernels of one ISA level, one pool of threads. Each op
// is a class or function of its own in this folder; this class holds them together.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/attention.h"
#include "backend/cpu/linear.h"
#include "backend/cpu/router.h"
#include "base/cpu_features.h"
#include "base/thread_pool.h"
#include "base/work_counters.h"
#include "kernels/kernels.h"

namespace hadal {

class CpuBackend final : public Backend {
 public:
  // `level` must be one of SupportedIsaLevels().
  CpuBackend(const Placement& placement, IsaLevel level);

  std::string Describe() const override;

  Buffer Allocate(uint64_t bytes) override;
  void Free(void* data, uint64_t size) noexcept override;
  std::unique_ptr<Weight> Upload(const TensorView& view, WeightPolicy policy) override;
  std::string PackedForm() const override;
  std::unique_ptr<Weight> Restore(const TensorView& view, WeightPolicy policy,
                                  const BlobReader& blobs, size_t first) override;
  uint64_t WeightBytes(const TensorView& view, WeightPolicy policy) const override;
  void CopyIn(std::span<const std::byte> host, Buffer& to, uint64_t offset) override;
  void CopyOut(const Buffer& from, uint64_t offset, std::span<std::byte> host) override;
  void Zero(Buffer& buffer, uint64_t offset, uint64_t size) override;
  void CopyPages(Buffer& arena, uint64_t page_bytes, std::span<const uint32_t> from,
                 std::span<const uint32_t> to) override;

  void Reserve(const ModelSpec& spec, const StepLimits& limits) override;
  uint64_t WorkspaceBytes(const ModelSpec& spec, const StepLimits& limits) const override;
  void BeginStep(const StepInput& step, KvCache& kv) override;
  void EndStep() override;

  void Embed(const Weight& table, std::span<const int32_t> tokens, Tensor out) override;
  void GatherRows(Tensor in, std::span<const uint32_t> rows, Tensor out) override;
  void RmsNorm(Tensor x, Tensor add, const Weight& weight, float eps, Tensor out) override;
  void Linear(Tensor x, const LinearArgs& linear) override;
  void LinearGroup(Tensor x, std::span<const LinearArgs> linears) override;
  void Glu(Tensor gate, Tensor up, Tensor out) override;
  void RopeAndStore(const RopeStoreArgs& args) override;
  void AttentionGqa(const AttentionGqaArgs& args) override;
  void AttentionMla(const AttentionMlaArgs& args) override;
  void MoeRoute(Tensor logits, const MoeSpec& moe, const Weight* choice_bias,
                Routing routing) override;
  void MoeFfn(Tensor x, std::span<const ExpertWeights> experts, Routing routing,
              Tensor out) override;
  void AddScaled(Tensor x, Tensor y, Tensor gate) override;
  void Argmax(Tensor x, std::span<int32_t> best) override;

  int host_threads() const override { return pool_.size(); }
  void RunOnHost(int64_t n, const std::function<void(int64_t index)>& body) override;

  OpCounters counters() const override;

 private:
  const KernelTable& kernels_;
  ThreadPool pool_;
  const NodeInterleaver nodes_;  // large buffers and weights are spread over
  PanelArena arena_;             // packed weights
  CpuLinear linear_;
  CpuAttention attention_;
  CpuRouter router_;
  const StepInput* step_ = nullptr;
  KvCache* kv_ = nullptr;
  uint64_t ops_ = 0;
  ThreadWork work_;         // of the calling thread
  ThreadWork before_step_;  // what it had done when the step began
};

// With an explicit level, for tests and comparisons. Throws Error(kUsage) as MakeCpuBackend(n).
std::unique_ptr<Backend> MakeCpuBackend(int n_threads, IsaLevel level);

}  // namespace hadal
