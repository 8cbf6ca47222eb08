// How long answers turn out to be, learned from those that ended.
#pragma once

#include <array>
#include <cstdint>

namespace hadal {

// A histogram of lengths in quarter octaves that forgets slowly. Pure and deterministic.
class OutputEstimator {
 public:
  OutputEstimator();

  // An answer ended after `generated` tokens.
  void Observe(uint32_t generated);

  // Tokens that an answer with `generated` of them so far will have in all: the length that four of
  // five such answers do not exceed; at most `max_tokens`, at least generated + 1 within it.
  uint32_t Expected(uint32_t generated, uint32_t max_tokens) const;

 private:
  static constexpr uint32_t kBuckets = 128;
  static uint32_t BucketOf(uint32_t tokens);
  static uint32_t UpperBound(uint32_t bucket);

  std::array<double, kBuckets> weights_ = {};
};

}  // namespace hadal
