#include "backend/cpu/cpu_weight.h"

#include <exception>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace hadal {
namespace {

// Panels one thread packs at a time.
constexpr uint64_t kPackPanels = 8;
// From here on PanelMatrix maps memory of its own, which nothing has touched yet.
constexpr uint64_t kInterleaveFrom = 2 << 20;

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

// Before its first write; small matrices lie where they are touched.
void SpreadMatrix(PanelMatrix& matrix, const NodeInterleaver& nodes) {
  if (matrix.bytes() >= kInterleaveFrom) nodes.Spread(matrix.mutable_panel(0), matrix.bytes());
}

PanelMatrix PackMatrix(ThreadPool& pool, const TensorView& view, WeightPolicy policy,
                       const NodeInterleaver& nodes) {
  CheckTensorParts(view);
  PanelMatrix matrix(view.rows(), view.cols(), ChooseFormat(view, policy));
  SpreadMatrix(matrix, nodes);
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

std::unique_ptr<CpuWeight> PackWeight(ThreadPool& pool, const TensorView& view, WeightPolicy policy,
                                      const NodeInterleaver& nodes) {
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
    matrices.push_back(PackMatrix(pool, MatrixOf(view, stack, i), policy, nodes));
  }
  return std::make_unique<CpuWeight>(std::move(matrices));
}

uint64_t PackedWeightBytes(const TensorView& view, WeightPolicy policy) {
  if (view.shape.size() == 1) return view.cols() * sizeof(float);
  const StackShape stack = ShapeOf(view);
  return stack.count * PanelBytes(stack.rows, view.cols(), ChooseFormat(view, policy));
}

}  // namespace hadal
