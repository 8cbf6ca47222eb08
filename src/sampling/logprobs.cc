#include "sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/error.h"

namespace hadal {

void CheckLogits(std::span<const float> logits) {
  // NaN and +infinity fail `x < inf`; counting without a branch keeps this one vector pass.
  size_t usable = 0, below = 0;
  for (const float logit : logits) {
    usable += logit < std::numeric_limits<float>::infinity();
    below += logit == -std::numeric_limits<float>::infinity();
  }
  if (usable == logits.size() && below < logits.size()) return;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (!(logits[id] < std::numeric_limits<float>::infinity())) {
      Fail(ErrorKind::kNumeric, "the logit of token {} is {}", id, logits[id]);
    }
  }
  Fail(ErrorKind::kNumeric, "no token is possible: all {} logits are -infinity", logits.size());
}

TokenLogprobs ComputeLogprobs(std::span<const float> logits, int32_t token, uint32_t top_n) {
  CheckLogits(logits);
  HADAL_CHECK(token >= 0 && static_cast<size_t>(token) < logits.size() && top_n <= logits.size());
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - max);
  const double log_sum = std::log(sum);
  const auto entry = [&](int32_t id) {
    return TokenLogprob{id, logits[static_cast<size_t>(id)] - max - log_sum};
  };

  TokenLogprobs result;
  result.chosen = entry(token);
  const float own = logits[static_cast<size_t>(token)];
  result.rank = 1;
  for (size_t id = 0; id < logits.size(); ++id) {
    result.rank += logits[id] > own || (logits[id] == own && id < static_cast<size_t>(token));
  }
  if (top_n == 0) return result;

  std::vector<int32_t> best(top_n);
  const auto better = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  // A heap of the best so far, worst on top: O(V) for the usual small n.
  for (uint32_t id = 0; id < top_n; ++id) best[id] = static_cast<int32_t>(id);
  std::make_heap(best.begin(), best.end(), better);
  for (size_t i = top_n; i < logits.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (!better(id, best.front())) continue;
    std::pop_heap(best.begin(), best.end(), better);
    best.back() = id;
    std::push_heap(best.begin(), best.end(), better);
  }
  std::sort(best.begin(), best.end(), better);
  for (const int32_t id : best) result.top.push_back(entry(id));
  return result;
}

}  // namespace hadal
