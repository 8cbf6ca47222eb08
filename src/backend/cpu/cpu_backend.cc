#include "backend/cpu/cpu_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "backend/cpu/elementwise.h"
#include "backend/cpu/rope.h"
#include "base/check.h"
#include "base/error.h"

namespace hadal {
namespace {

// From here on memory is mapped by itself and asks for huge pages.
constexpr uint64_t kMapFrom = 2 << 20;
constexpr std::align_val_t kAlignment{64};
// Tokens below which one thread looks embeddings up quicker.
constexpr size_t kSerialTokens = 16;

}  // namespace

CpuBackend::CpuBackend(const Placement& placement, IsaLevel level)
    : kernels_(GetKernels(level)),
      pool_(placement.threads, placement.pins),
      nodes_(placement.nodes),
      arena_(&nodes_),
      linear_(&pool_, &kernels_),
      attention_(&pool_, &kernels_.attention),
      router_(&pool_) {}

std::string CpuBackend::Describe() const {
  return fmt::format("cpu {}, {} thread{}", Name(kernels_.level), pool_.size(),
                     pool_.size() == 1 ? "" : "s");
}

// --- memory ---

Buffer CpuBackend::Allocate(uint64_t bytes) {
  if (bytes == 0) return {};
  void* data = nullptr;
  if (bytes >= kMapFrom) {
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) data = nullptr;
    if (data != nullptr) madvise(data, bytes, MADV_HUGEPAGE);
    if (data != nullptr) nodes_.Spread(data, bytes);
  } else {
    data = ::operator new(bytes, kAlignment, std::nothrow);
    if (data != nullptr) std::memset(data, 0, bytes);
  }
  if (data == nullptr) Fail(ErrorKind::kResource, "no memory for a buffer of {} bytes", bytes);
  return Buffer(this, data, bytes);
}

void CpuBackend::Free(void* data, uint64_t size) noexcept {
  if (size >= kMapFrom) {
    munmap(data, size);
  } else {
    ::operator delete(data, kAlignment);
  }
}

std::unique_ptr<Weight> CpuBackend::Upload(const TensorView& view, WeightPolicy policy) {
  return PackWeight(pool_, arena_, view, policy);
}

// No ISA level in it: packing is the same code for all of them, and every level reads every panel.
std::string CpuBackend::PackedForm() const {
  return fmt::format("cpu panels {}", kPackingVersion);
}

std::unique_ptr<Weight> CpuBackend::Restore(const TensorView& view, WeightPolicy policy,
                                            const BlobReader& blobs, size_t first) {
  return RestoreWeight(pool_, arena_, view, policy, blobs, first);
}

uint64_t CpuBackend::WeightBytes(const TensorView& view, WeightPolicy policy) const {
  return PackedWeightBytes(view, policy);
}

void CpuBackend::CopyIn(std::span<const std::byte> host, Buffer& to, uint64_t offset) {
  HADAL_CHECK(offset <= to.size() && host.size() <= to.size() - offset);
  std::memcpy(static_cast<std::byte*>(to.data()) + offset, host.data(), host.size());
}

void CpuBackend::CopyOut(const Buffer& from, uint64_t offset, std::span<std::byte> host) {
  HADAL_CHECK(offset <= from.size() && host.size() <= from.size() - offset);
  std::memcpy(host.data(), static_cast<const std::byte*>(from.data()) + offset, host.size());
}

void CpuBackend::Zero(Buffer& buffer, uint64_t offset, uint64_t size) {
  HADAL_CHECK(offset <= buffer.size() && size <= buffer.size() - offset);
  std::memset(static_cast<std::byte*>(buffer.data()) + offset, 0, size);
}

void CpuBackend::CopyPages(Buffer& arena, uint64_t page_bytes, std::span<const uint32_t> from,
                           std::span<const uint32_t> to) {
  HADAL_CHECK(from.size() == to.size());
  auto* base = static_cast<std::byte*>(arena.data());
  const uint64_t pages = page_bytes == 0 ? 0 : arena.size() / page_bytes;
  for (size_t i = 0; i < from.size(); ++i) {
    HADAL_CHECK(from[i] < pages && to[i] < pages);
    std::memmove(base + to[i] * page_bytes, base + from[i] * page_bytes, page_bytes);
  }
}

// --- step ---

void CpuBackend::Reserve(const ModelSpec& spec, const StepLimits& limits) {
  linear_.Reserve(spec, limits);
  attention_.Reserve(spec, limits);
  router_.Reserve(spec);
}

uint64_t CpuBackend::WorkspaceBytes(const ModelSpec& spec, const StepLimits& limits) const {
  return linear_.WorkspaceBytes(spec, limits) + attention_.WorkspaceBytes(spec, limits) +
         router_.WorkspaceBytes(spec);
}

void CpuBackend::BeginStep(const StepInput& step, KvCache& kv) {
  HADAL_CHECK(step_ == nullptr);
  before_step_ = thread_work;
  step_ = &step;
  kv_ = &kv;
}

void CpuBackend::EndStep() {
  HADAL_CHECK(step_ != nullptr);
  step_ = nullptr;
  kv_ = nullptr;
  work_ += thread_work - before_step_;
}

// --- ops ---

void CpuBackend::Embed(const Weight& table, std::span<const int32_t> tokens, Tensor out) {
  ++ops_;
  const PanelMatrix& matrix = AsCpu(table).matrix();
  HADAL_CHECK(out.rows == tokens.size() && out.cols == matrix.cols());
  const auto one = [&](int64_t i, int /*thread*/) {
    const auto token = static_cast<uint64_t>(tokens[static_cast<size_t>(i)]);
    HADAL_CHECK(token < matrix.rows());
    UnpackRow(matrix, token, {out.row(static_cast<uint32_t>(i)), out.cols});
  };
  if (tokens.size() <= kSerialTokens) {
    for (size_t i = 0; i < tokens.size(); ++i) one(static_cast<int64_t>(i), 0);
  } else {
    pool_.ParallelFor(static_cast<int64_t>(tokens.size()), one);
  }
}

void CpuBackend::GatherRows(Tensor in, std::span<const uint32_t> rows, Tensor out) {
  ++ops_;
  HADAL_CHECK(out.rows == rows.size() && out.cols == in.cols);
  for (uint32_t i = 0; i < out.rows; ++i) {
    HADAL_CHECK(rows[i] < in.rows);
    std::copy_n(in.row(rows[i]), in.cols, out.row(i));
  }
}

void CpuBackend::RmsNorm(Tensor x, Tensor add, const Weight& weight, float eps, Tensor out) {
  ++ops_;
  HADAL_CHECK(weight.cols() == x.cols);
  CpuRmsNorm(pool_, kernels_.elementwise, x, add, AsCpu(weight).vector(), eps, out);
}

void CpuBackend::Linear(Tensor x, const LinearArgs& linear) {
  ++ops_;
  linear_.Group(x, {&linear, 1});
}

void CpuBackend::LinearGroup(Tensor x, std::span<const LinearArgs> linears) {
  ++ops_;
  linear_.Group(x, linears);
}

void CpuBackend::Glu(Tensor gate, Tensor up, Tensor out) {
  ++ops_;
  CpuGlu(pool_, kernels_.elementwise, gate, up, out);
}

void CpuBackend::RopeAndStore(const RopeStoreArgs& args) {
  ++ops_;
  HADAL_CHECK(step_ != nullptr);
  CpuRopeAndStore(pool_, kernels_, *step_, *kv_, args);
}

void CpuBackend::AttentionGqa(const AttentionGqaArgs& args) {
  ++ops_;
  HADAL_CHECK(step_ != nullptr);
  attention_.Gqa(*step_, *kv_, args);
}

void CpuBackend::AttentionMla(const AttentionMlaArgs& args) {
  ++ops_;
  HADAL_CHECK(step_ != nullptr);
  attention_.Mla(*step_, *kv_, args, [&](const HeadLinearArgs& heads) { linear_.Heads(heads); });
}

void CpuBackend::MoeRoute(Tensor logits, const MoeSpec& moe, const Weight* choice_bias,
                          Routing routing) {
  ++ops_;
  router_.Route(logits, moe, choice_bias != nullptr ? AsCpu(*choice_bias).vector() : nullptr,
                routing);
}

void CpuBackend::MoeFfn(Tensor x, std::span<const ExpertWeights> experts, Routing routing,
                        Tensor out) {
  ++ops_;
  linear_.Moe(x, experts, routing, out);
}

void CpuBackend::AddScaled(Tensor x, Tensor y, Tensor gate) {
  ++ops_;
  CpuAddScaled(pool_, kernels_.elementwise, x, y, gate);
}

void CpuBackend::RunOnHost(int64_t n, const std::function<void(int64_t index)>& body) {
  pool_.ParallelFor(n, [&](int64_t index, int /*thread*/) { body(index); });
}

void CpuBackend::Argmax(Tensor x, std::span<int32_t> best) {
  ++ops_;
  HADAL_CHECK(best.size() == x.rows && x.cols > 0);
  const ThreadWork before = thread_work;
  pool_.ParallelFor(x.rows, [&](int64_t row, int /*thread*/) {
    kernels_.elementwise.argmax(x.row(static_cast<uint32_t>(row)), x.cols,
                                &best[static_cast<size_t>(row)]);
  });
  if (step_ == nullptr) work_ += thread_work - before;  // what EndStep did not see
}

OpCounters CpuBackend::counters() const {
  ThreadWork work = work_;
  work += pool_.WorkersWork();
  return {ops_, attention_.tiles(), pool_.jobs(), work.kernel_calls, work.bytes};
}

std::unique_ptr<Backend> MakeCpuBackend(int n_threads, IsaLevel level) {
  Placement placement;
  placement.threads = n_threads;
  return std::make_unique<CpuBackend>(placement, level);
}

std::unique_ptr<Backend> MakeCpuBackend(const Placement& placement) {
  return std::make_unique<CpuBackend>(placement, ChooseIsaLevel());
}

std::unique_ptr<Backend> MakeCpuBackend(int n_threads) {
  return MakeCpuBackend(n_threads, ChooseIsaLevel());
}

}  // namespace hadal
