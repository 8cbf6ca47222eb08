#include "backend/cpu/router.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace hadal {
namespace {

constexpr double kTaken = -std::numeric_limits<double>::infinity();
// What -inf counts as, so that it does not look taken: routing must survive broken logits, which
// are reported later.
constexpr double kLowest = std::numeric_limits<double>::lowest();
// Keeps an all-zero choice from dividing by zero, as DeepSeek's router does.
constexpr double kNormEpsilon = 1e-20;
// Tokens below which one thread is quicker.
constexpr uint32_t kSerialTokens = 8;

void Score(MoeScoring scoring, const float* logits, uint32_t n, double* scores) {
  if (scoring == MoeScoring::kSigmoid) {
    for (uint32_t e = 0; e < n; ++e) {
      scores[e] = 1.0 / (1.0 + std::exp(-static_cast<double>(logits[e])));
    }
    return;
  }
  const double max = *std::max_element(logits, logits + n);
  double sum = 0;
  for (uint32_t e = 0; e < n; ++e) sum += scores[e] = std::exp(logits[e] - max);
  for (uint32_t e = 0; e < n; ++e) scores[e] /= sum;
}

// The best entry not taken, the lower index of equals; NaN never wins unless nothing else is left,
// and no index comes twice.
uint32_t TakeBest(double* values, uint32_t n) {
  uint32_t best = n;
  uint32_t fallback = n;
  for (uint32_t i = 0; i < n; ++i) {
    if (values[i] == kTaken) continue;
    if (fallback == n) fallback = i;
    if (!std::isnan(values[i]) && (best == n || values[i] > values[best])) best = i;
  }
  if (best == n) best = fallback;
  HADAL_CHECK(best < n);
  values[best] = kTaken;
  return best;
}

double GroupScore(MoeGroupScore kind, const double* choice, uint32_t size) {
  double first = kLowest;
  double second = kLowest;
  for (uint32_t e = 0; e < size; ++e) {
    if (choice[e] > first) {
      second = first;
      first = choice[e];
    } else if (choice[e] > second) {
      second = choice[e];
    }
  }
  if (kind == MoeGroupScore::kMax) return first;
  return size > 1 ? std::max(first + second, kLowest) : first;
}

}  // namespace

uint64_t CpuRouter::WorkspaceBytes(const ModelSpec& spec) const {
  if (!spec.moe) return 0;
  const uint64_t per_thread = 2 * uint64_t{spec.moe->n_experts} + 2 * uint64_t{spec.moe->n_groups};
  return per_thread * static_cast<uint64_t>(pool_->size()) * sizeof(double);
}

void CpuRouter::Reserve(const ModelSpec& spec) {
  scratch_.assign(WorkspaceBytes(spec) / sizeof(double), 0);
  per_thread_ = scratch_.size() / static_cast<uint64_t>(pool_->size());
}

void CpuRouter::Route(Tensor logits, const MoeSpec& moe, const float* choice_bias,
                      Routing routing) {
  HADAL_CHECK(logits.cols == moe.n_experts && routing.n_used == moe.n_used);
  HADAL_CHECK(2 * uint64_t{moe.n_experts} + 2 * uint64_t{moe.n_groups} <= per_thread_);
  const auto one = [&](int64_t token, int thread) {
    const auto row = static_cast<uint32_t>(token);
    double* base = scratch_.data() + static_cast<uint64_t>(thread) * per_thread_;
    const Scratch scratch{base, base + moe.n_experts, base + 2 * uint64_t{moe.n_experts}};
    const uint64_t at = uint64_t{row} * moe.n_used;
    RouteToken(logits.row(row), moe, choice_bias, scratch, routing.experts + at,
               routing.weights + at);
  };
  if (logits.rows <= kSerialTokens) {
    for (uint32_t row = 0; row < logits.rows; ++row) one(row, 0);
  } else {
    pool_->ParallelFor(logits.rows, one);
  }
}

void CpuRouter::RouteToken(const float* logits, const MoeSpec& moe, const float* choice_bias,
                           const Scratch& scratch, int32_t* experts, float* weights) const {
  const uint32_t n = moe.n_experts;
  Score(moe.scoring, logits, n, scratch.scores);
  for (uint32_t e = 0; e < n; ++e) {
    scratch.choice[e] = scratch.scores[e] + (choice_bias != nullptr ? choice_bias[e] : 0);
    if (scratch.choice[e] == kTaken) scratch.choice[e] = kLowest;
  }
  if (moe.group_score != MoeGroupScore::kNone) {
    const uint32_t size = n / moe.n_groups;
    double* chosen = scratch.groups + moe.n_groups;
    std::fill_n(chosen, moe.n_groups, 0.0);
    for (uint32_t g = 0; g < moe.n_groups; ++g) {
      scratch.groups[g] = GroupScore(moe.group_score, scratch.choice + uint64_t{g} * size, size);
    }
    for (uint32_t i = 0; i < moe.n_groups_used; ++i) {
      chosen[TakeBest(scratch.groups, moe.n_groups)] = 1.0;
    }
    for (uint32_t g = 0; g < moe.n_groups; ++g) {
      if (chosen[g] == 0) std::fill_n(scratch.choice + uint64_t{g} * size, size, kTaken);
    }
  }
  double sum = 0;
  for (uint32_t k = 0; k < moe.n_used; ++k) {
    experts[k] = static_cast<int32_t>(TakeBest(scratch.choice, n));
    sum += scratch.scores[experts[k]];
  }
  for (uint32_t k = 0; k < moe.n_used; ++k) {
    const double score = scratch.scores[experts[k]];
    const double weight = moe.normalize ? score / (sum + kNormEpsilon) : score;
    weights[k] = static_cast<float>(weight * moe.weight_scale);
  }
}

}  // namespace hadal
