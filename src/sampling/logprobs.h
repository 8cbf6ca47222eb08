// Log-probabilities of the model's own distribution: before temperature, penalties and filters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hadal {

struct TokenLogprob {
  int32_t token = -1;
  double logprob = 0;
};

struct TokenLogprobs {
  TokenLogprob chosen;
  uint32_t rank = 0;              // of the chosen token, 1 = most likely; ties: lower id first
  std::vector<TokenLogprob> top;  // most likely first; ties: lower id first
};

// Log-softmax in float64: logit - max - ln(sum exp(logit - max)), summed in id order.
// `top_n` <= vocab entries are returned in `top`. Throws Error(kNumeric) for logits that are NaN,
// +infinity or all -infinity.
TokenLogprobs ComputeLogprobs(std::span<const float> logits, int32_t token, uint32_t top_n);

// Throws the same Error; called on every row of logits before anything is chosen from it.
void CheckLogits(std::span<const float> logits);

}  // namespace hadal
