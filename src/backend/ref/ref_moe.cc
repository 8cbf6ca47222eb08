// Mixture of experts. Names and options: MoeSpec.
#include <algorithm>
#include <cmath>

#include "backend/ref/ref_backend.h"
#include "base/check.h"

namespace hadal {
namespace {

// scores[e] from logits[e].
void Score(MoeScoring scoring, const float* logits, std::span<double> scores) {
  if (scoring == MoeScoring::kSigmoid) {
    for (size_t e = 0; e < scores.size(); ++e) scores[e] = RefSigmoid(logits[e]);
    return;
  }
  const double max = *std::max_element(logits, logits + scores.size());
  double sum = 0;
  for (size_t e = 0; e < scores.size(); ++e) sum += scores[e] = std::exp(logits[e] - max);
  for (double& score : scores) score /= sum;
}

// Index of the best entry that is still allowed, the lower one of equals; then forbids it.
// Whatever the values (NaN too), some allowed index is returned.
uint32_t TakeBest(std::span<const double> values, std::span<uint8_t> allowed) {
  uint32_t best = static_cast<uint32_t>(values.size());
  for (uint32_t i = 0; i < values.size(); ++i) {
    if (!allowed[i]) continue;
    if (best == values.size() || values[i] > values[best]) best = i;
  }
  HADAL_CHECK(best < values.size());
  allowed[best] = 0;
  return best;
}

double GroupScore(MoeGroupScore kind, std::span<const double> choice) {
  double first = choice[0];
  double second = 0;
  for (size_t e = 1; e < choice.size(); ++e) {
    if (e == 1 || choice[e] > second) second = choice[e];
    if (second > first) std::swap(first, second);
  }
  return kind == MoeGroupScore::kMax ? first : first + second;
}

// Marks the experts of the best n_groups_used groups as allowed.
void ChooseGroups(const MoeSpec& moe, std::span<const double> choice, std::span<double> groups,
                  std::span<uint8_t> allowed, std::span<uint8_t> allowed_groups) {
  const uint32_t size = moe.n_experts / moe.n_groups;
  for (uint32_t g = 0; g < moe.n_groups; ++g) {
    groups[g] = GroupScore(moe.group_score, choice.subspan(g * size, size));
  }
  std::fill(allowed.begin(), allowed.end(), 0);
  std::fill(allowed_groups.begin(), allowed_groups.end(), 1);
  for (uint32_t i = 0; i < moe.n_groups_used; ++i) {
    const uint32_t g = TakeBest(groups, allowed_groups);
    std::fill_n(allowed.begin() + g * size, size, 1);
  }
}

}  // namespace

void RefBackend::MoeRoute(Tensor logits, const MoeSpec& moe, const Weight* choice_bias,
                          Routing routing) {
  ++counters_.ops;
  HADAL_CHECK(logits.cols == moe.n_experts && routing.n_used == moe.n_used);
  const std::span<double> scores(experts_.data(), moe.n_experts);
  const std::span<double> choice(experts_.data() + moe.n_experts, moe.n_experts);
  const std::span<uint8_t> allowed(allowed_.data(), moe.n_experts);
  const std::span<uint8_t> allowed_groups(allowed_.data() + moe.n_experts, moe.n_groups);
  for (uint32_t i = 0; i < logits.rows; ++i) {
    Score(moe.scoring, logits.row(i), scores);
    for (uint32_t e = 0; e < moe.n_experts; ++e) {
      choice[e] = scores[e] + (choice_bias != nullptr ? AsRef(*choice_bias).row(0)[e] : 0);
    }
    if (moe.group_score == MoeGroupScore::kNone) {
      std::fill(allowed.begin(), allowed.end(), 1);
    } else {
      ChooseGroups(moe, choice, groups_, allowed, allowed_groups);
    }
    double sum = 0;
    int32_t* experts = routing.experts + uint64_t{i} * moe.n_used;
    float* weights = routing.weights + uint64_t{i} * moe.n_used;
    for (uint32_t k = 0; k < moe.n_used; ++k) {
      experts[k] = static_cast<int32_t>(TakeBest(choice, allowed));
      sum += scores[experts[k]];
    }
    for (uint32_t k = 0; k < moe.n_used; ++k) {
      const double weight = moe.normalize ? scores[experts[k]] / (sum + 1e-20) : scores[experts[k]];
      weights[k] = static_cast<float>(weight * moe.weight_scale);
    }
  }
}

void RefBackend::MoeFfn(Tensor x, std::span<const ExpertWeights> experts, Routing routing,
                        Tensor out) {
  ++counters_.ops;
  HADAL_CHECK(out.rows == x.rows && out.cols == x.cols && x.cols == sum_.size());
  for (uint32_t i = 0; i < x.rows; ++i) {
    const int32_t* chosen = routing.experts + uint64_t{i} * routing.n_used;
    const float* weights = routing.weights + uint64_t{i} * routing.n_used;
    std::fill(sum_.begin(), sum_.end(), 0.0);
    for (int32_t e = 0; e < static_cast<int32_t>(experts.size()); ++e) {
      const int32_t* found = std::find(chosen, chosen + routing.n_used, e);
      if (found == chosen + routing.n_used) continue;
      const ExpertWeights& expert = experts[e];
      for (uint32_t h = 0; h < hidden_.size(); ++h) {
        const double gate = RefDot(x.row(i), AsRef(*expert.gate).row(h), x.cols);
        const double up = RefDot(x.row(i), AsRef(*expert.up).row(h), x.cols);
        hidden_[h] = static_cast<float>(RefSilu(gate) * up);
      }
      const double weight = weights[found - chosen];
      for (uint32_t c = 0; c < out.cols; ++c) {
        sum_[c] += weight * RefDot(hidden_.data(), AsRef(*expert.down).row(c), hidden_.size());
      }
    }
    for (uint32_t c = 0; c < out.cols; ++c) out.row(i)[c] = static_cast<float>(sum_[c]);
  }
}

}  // namespace hadal
