#include "sched/output_estimator.h"

#include <algorithm>
#include <cmath>

namespace hadal {
namespace {

constexpr double kQuantile = 0.8;
// About the last 200 answers count.
constexpr double kDecay = 0.995;
// Before anything is known: as if four answers of 256 tokens had been seen.
constexpr uint32_t kPriorTokens = 256;
constexpr double kPriorWeight = 4;

}  // namespace

OutputEstimator::OutputEstimator() {
  weights_[BucketOf(kPriorTokens)] = kPriorWeight;
}

uint32_t OutputEstimator::BucketOf(uint32_t tokens) {
  const double bucket = std::ceil(4 * std::log2(std::max(tokens, 1u)) - 1e-9);
  return std::min(static_cast<uint32_t>(bucket), kBuckets - 1);
}

// The most tokens that fall into the bucket.
uint32_t OutputEstimator::UpperBound(uint32_t bucket) {
  return static_cast<uint32_t>(std::min(std::exp2(bucket / 4.0) + 1e-6, 4294967295.0));
}

void OutputEstimator::Observe(uint32_t generated) {
  for (double& weight : weights_) weight *= kDecay;
  weights_[BucketOf(generated)] += 1;
}

uint32_t OutputEstimator::Expected(uint32_t generated, uint32_t max_tokens) const {
  const uint32_t next = std::min(generated + 1, max_tokens);
  double total = 0;
  uint32_t bucket = BucketOf(next);
  for (uint32_t b = bucket; b < kBuckets; ++b) total += weights_[b];
  // Longer than all that was seen: it may as well go on for as long again.
  if (total < 1e-6) return std::max(next, std::min(max_tokens, 2 * std::min(generated, 1u << 30)));
  double sum = 0;
  for (; bucket + 1 < kBuckets; ++bucket) {
    sum += weights_[bucket];
    if (sum >= kQuantile * total) break;
  }
  return std::clamp(UpperBound(bucket), next, std::max(next, max_tokens));
}

}  // namespace hadal
