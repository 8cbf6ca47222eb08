#include "backend/cpu/cpu_weight.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace hadal {
namespace {

// Panels one thread packs at a time.
constexpr uint64_t kPackPanels = 8;

struct StackShape {
  uint64_t count = 1;
  uint64_t rows = 0;  // of one matrix
};

StackShape ShapeOf(const TensorView& view) {
  if (view.shape.size() == 2) return {1, view.shape[0]};
  if (view.shape.size() == 3 && view.shape[0] > 0) return {view.shape[0], view.shape[1]};
  Fail(ErrorKind::kUnsupported, "tensor {}: a weight has 1, 2 or 3 dimensions, this one has {}",
       view.name, view.shape.size());
}

TensorView MatrixOf(const TensorView& view, const StackShape& stack, uint64_t index) {
  if (view.shape.size() == 2) return view;
  return RowRange(view, index * stack.rows, stack.rows);
}

// What a thread of the pool threw, to be thrown again by the caller.
class FirstFailure {
 public:
  template <typename Body>
  void Guard(Body&& body) {
    try {
      body();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (failure_ == nullptr) failure_ = std::current_exception();
    }
  }
  void Rethrow() const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;  // guards failure_
  std::exception_ptr failure_;
};

PanelMatrix PackMatrix(ThreadPool& pool, PanelArena& arena, const TensorView& view,
                       WeightPolicy policy) {
  CheckTensorParts(view);
  PanelMatrix matrix(view.rows(), view.cols(), ChooseFormat(view, policy), arena);
  const uint64_t n = (matrix.panels() + kPackPanels - 1) / kPackPanels;
  FirstFailure failure;
  pool.ParallelFor(static_cast<int64_t>(n), [&](int64_t i, int) {
    failure.Guard([&] {
      const uint64_t first = static_cast<uint64_t>(i) * kPackPanels;
      PackPanels(view, matrix, first, std::min(kPackPanels, matrix.panels() - first));
    });
  });
  failure.Rethrow();
  return matrix;
}

// A chunk of a blob and where it goes.
struct ChunkRead {
  size_t blob;
  uint64_t chunk;
  std::span<std::byte> to;
};

void AddReads(const BlobReader& blobs, size_t blob, std::span<std::byte> to,
              std::vector<ChunkRead>& reads) {
  if (blobs.bytes(blob) != to.size()) {
    Fail(ErrorKind::kBadFile, "{}: part {} has {} bytes, not {}", blobs.path().string(), blob + 1,
         blobs.bytes(blob), to.size());
  }
  for (uint64_t at = 0; at < to.size(); at += kBlobChunk) {
    reads.push_back({blob, at / kBlobChunk, to.subspan(at, std::min(kBlobChunk, to.size() - at))});
  }
}

void ReadAll(ThreadPool& pool, const BlobReader& blobs, const std::vector<ChunkRead>& reads) {
  FirstFailure failure;
  pool.ParallelFor(static_cast<int64_t>(reads.size()), [&](int64_t i, int) {
    const ChunkRead& read = reads[static_cast<size_t>(i)];
    failure.Guard([&] { blobs.ReadChunk(read.blob, read.chunk, read.to); });
  });
  failure.Rethrow();
}

}  // namespace

CpuWeight::CpuWeight(std::vector<PanelMatrix> matrices) : matrices_(std::move(matrices)) {
  HADAL_CHECK(!matrices_.empty());
}

CpuWeight::CpuWeight(std::vector<float> vector) : vector_(std::move(vector)) {}

uint64_t CpuWeight::rows() const {
  return is_vector() ? 1 : matrices_.size() * matrices_[0].rows();
}

uint64_t CpuWeight::cols() const {
  return is_vector() ? vector_.size() : matrices_[0].cols();
}

uint64_t CpuWeight::bytes() const {
  uint64_t sum = vector_.size() * sizeof(float);
  for (const PanelMatrix& matrix : matrices_) sum += matrix.bytes();
  return sum;
}

std::vector<std::span<const std::byte>> CpuWeight::packed() const {
  if (is_vector()) return {std::as_bytes(std::span(vector_))};
  std::vector<std::span<const std::byte>> parts;
  parts.reserve(matrices_.size());
  for (const PanelMatrix& matrix : matrices_) parts.push_back(matrix.contents());
  return parts;
}

const float* CpuWeight::vector() const {
  HADAL_CHECK(is_vector());
  return vector_.data();
}

const PanelMatrix& CpuWeight::matrix() const {
  HADAL_CHECK(matrices_.size() == 1);
  return matrices_[0];
}

const CpuWeight& AsCpu(const Weight& weight) {
  return static_cast<const CpuWeight&>(weight);
}

std::unique_ptr<CpuWeight> PackWeight(ThreadPool& pool, PanelArena& arena, const TensorView& view,
                                      WeightPolicy policy) {
  if (view.shape.size() == 1) {
    std::vector<float> values(view.cols());
    DequantizeRows(view, 0, 1, values);
    return std::make_unique<CpuWeight>(std::move(values));
  }
  CheckTensorParts(view);
  const StackShape stack = ShapeOf(view);
  std::vector<PanelMatrix> matrices;
  matrices.reserve(stack.count);
  for (uint64_t i = 0; i < stack.count; ++i) {
    matrices.push_back(PackMatrix(pool, arena, MatrixOf(view, stack, i), policy));
  }
  return std::make_unique<CpuWeight>(std::move(matrices));
}

std::unique_ptr<CpuWeight> RestoreWeight(ThreadPool& pool, PanelArena& arena,
                                         const TensorView& view, WeightPolicy policy,
                                         const BlobReader& blobs, size_t first) {
  std::vector<ChunkRead> reads;
  if (view.shape.size() == 1) {
    std::vector<float> values(view.cols());
    AddReads(blobs, first, std::as_writable_bytes(std::span(values)), reads);
    ReadAll(pool, blobs, reads);
    return std::make_unique<CpuWeight>(std::move(values));
  }
  const StackShape stack = ShapeOf(view);
  const PanelFormat format = ChooseFormat(view, policy);
  std::vector<PanelMatrix> matrices;
  matrices.reserve(stack.count);
  for (uint64_t i = 0; i < stack.count; ++i) {
    PanelMatrix& matrix = matrices.emplace_back(stack.rows, view.cols(), format, arena);
    AddReads(blobs, first + i, matrix.mutable_contents(), reads);
  }
  ReadAll(pool, blobs, reads);
  return std::make_unique<CpuWeight>(std::move(matrices));
}

uint64_t PackedWeightBytes(const TensorView& view, WeightPolicy policy) {
  if (view.shape.size() == 1) return view.cols() * sizeof(float);
  const StackShape stack = ShapeOf(view);
  return stack.count * PanelBytes(stack.rows, view.cols(), ChooseFormat(view, policy));
}

}  // namespace hadal
