#include "sched/cost_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace hadal {
namespace {

// A small model on a small machine, in seconds per unit: where learning starts.
constexpr double kTypicalStep = 5e-3, kTypicalToken = 1e-3, kTypicalContext = 1e-7,
                 kTypicalSequence = 1e-4, kTypicalByte = 1e-9;
constexpr double kDecay = 0.995;
// Weight of the earlier value against one step.
constexpr double kPull = 1e-3;

}  // namespace

StepShape& StepShape::operator+=(const StepShape& other) {
  tokens += other.tokens;
  context += other.context;
  sequences += other.sequences;
  swapped_bytes += other.swapped_bytes;
  return *this;
}

StepShape RunShape(uint64_t first_position, uint64_t n_tokens) {
  return {.tokens = n_tokens,
          .context = n_tokens * first_position + n_tokens * (n_tokens + 1) / 2,
          .sequences = 1};
}

CostModel::CostModel() {
  scale_.fill(1);
}

CostModel::Vector CostModel::Features(const StepShape& shape) {
  return {kTypicalStep, kTypicalToken * static_cast<double>(shape.tokens),
          kTypicalContext * static_cast<double>(shape.context),
          kTypicalSequence * static_cast<double>(shape.sequences),
          kTypicalByte * static_cast<double>(shape.swapped_bytes)};
}

double CostModel::Predict(const StepShape& shape) const {
  const Vector x = Features(shape);
  double seconds = 0;
  for (size_t i = 0; i < kTerms; ++i) seconds += scale_[i] * x[i];
  return seconds;
}

void CostModel::Observe(const StepShape& shape, double seconds) {
  // A clock that stands still teaches nothing.
  if (!(seconds > 1e-7) || !std::isfinite(seconds)) return;
  Vector x = Features(shape);
  for (double& value : x) value /= seconds;  // so that errors are relative
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t j = 0; j < kTerms; ++j) products_[i][j] = kDecay * products_[i][j] + x[i] * x[j];
    targets_[i] = kDecay * targets_[i] + x[i];
  }
  ++n_observed_;
  Solve();
}

// (products + pull I) scale = targets + pull (scale before), by Gaussian elimination: the matrix is
// symmetric and positive definite, so no pivoting is needed.
void CostModel::Solve() {
  // The pull is relative to how strongly the steps speak at all.
  double strongest = 0;
  for (size_t i = 0; i < kTerms; ++i) strongest = std::max(strongest, products_[i][i]);
  const double pull = kPull * std::max(strongest, 1e-12);
  std::array<Vector, kTerms> matrix = products_;
  Vector right = targets_;
  for (size_t i = 0; i < kTerms; ++i) {
    matrix[i][i] += pull;
    right[i] += pull * scale_[i];
  }
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t r = i + 1; r < kTerms; ++r) {
      const double factor = matrix[r][i] / matrix[i][i];
      for (size_t c = i; c < kTerms; ++c) matrix[r][c] -= factor * matrix[i][c];
      right[r] -= factor * right[i];
    }
  }
  for (size_t i = kTerms; i-- > 0;) {
    for (size_t c = i + 1; c < kTerms; ++c) right[i] -= matrix[i][c] * right[c];
    right[i] /= matrix[i][i];
  }
  for (size_t i = 0; i < kTerms; ++i) scale_[i] = std::max(right[i], 0.0);
}

}  // namespace hadal
