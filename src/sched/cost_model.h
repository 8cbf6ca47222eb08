// How long a step takes, learned while it runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hadal {

// What a step costs follows from these.
struct StepShape {
  uint64_t tokens = 0;     // rows
  uint64_t context = 0;    // sum over the rows of the tokens each sees
  uint64_t sequences = 0;  // rows with logits, page tables
  uint64_t swapped_bytes = 0;
  StepShape& operator+=(const StepShape& other);
};

// `n_tokens` rows of one sequence, the first of them at `first_position`.
StepShape RunShape(uint64_t first_position, uint64_t n_tokens);

// seconds = c0 + c1 tokens + c2 context + c3 sequences + c4 swapped bytes, every c >= 0: least
// squares of the relative error over the last few hundred steps; what these say nothing about keeps
// its earlier value. Pure and deterministic: it sees no clock.
class CostModel {
 public:
  CostModel();

  void Observe(const StepShape& shape, double seconds);
  double Predict(const StepShape& shape) const;
  uint64_t n_observed() const { return n_observed_; }

 private:
  static constexpr size_t kTerms = 5;
  using Vector = std::array<double, kTerms>;
  static Vector Features(const StepShape& shape);
  void Solve();

  std::array<Vector, kTerms> products_ = {};  // sum of x x^T, decayed
  Vector targets_ = {};                       // sum of x y, decayed
  Vector scale_;                              // coefficients in units of a typical machine's
  uint64_t n_observed_ = 0;
};

}  // namespace hadal
