#include "sampling/params.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.h"

namespace hadal {
namespace {

// NaN is in no range.
void CheckRange(std::string_view field, double value, double low, double high) {
  if (value >= low && value <= high) return;
  Fail(ErrorKind::kInvalid, "{} is {}; it must be in [{}, {}]", field, value, low, high);
}

void CheckOpenRange(std::string_view field, double value, double low, double high) {
  if (value > low && value <= high) return;
  Fail(ErrorKind::kInvalid, "{} is {}; it must be in ({}, {}]", field, value, low, high);
}

void CheckToken(std::string_view field, int32_t token, uint32_t vocab) {
  if (token >= 0 && static_cast<uint32_t>(token) < vocab) return;
  Fail(ErrorKind::kInvalid, "{} names token {}; the vocabulary has tokens 0 to {}", field, token,
       int64_t{vocab} - 1);
}

}  // namespace

void Validate(const SamplingParams& params, uint32_t vocab) {
  CheckRange("temperature", params.temperature, 0, 100);
  CheckRange("top_k", params.top_k, 0, INT32_MAX);
  CheckOpenRange("top_p", params.top_p, 0, 1);
  CheckRange("min_p", params.min_p, 0, 1);
  CheckOpenRange("typical_p", params.typical_p, 0, 1);
  CheckOpenRange("repetition_penalty", params.repetition_penalty, 0, 10);
  CheckRange("presence_penalty", params.presence_penalty, -2, 2);
  CheckRange("frequency_penalty", params.frequency_penalty, -2, 2);
  CheckRange("dry_multiplier", params.dry.multiplier, 0, 100);
  CheckRange("dry_base", params.dry.base, 1, 8);
  CheckRange("dry_allowed_length", params.dry.allowed_length, 1, 1 << 20);
  CheckRange("logprobs", params.logprobs, -1, kMaxLogprobs);
  for (const int32_t token : params.dry.breakers) {
    CheckToken("dry_sequence_breakers", token, vocab);
  }
  if (!std::is_sorted(params.dry.breakers.begin(), params.dry.breakers.end())) {
    Fail(ErrorKind::kInvalid, "dry_sequence_breakers are not in ascending order");
  }
  std::vector<int32_t> biased;
  for (const auto& [token, bias] : params.logit_bias) {
    CheckToken("logit_bias", token, vocab);
    CheckRange("logit_bias", bias, -100, 100);
    biased.push_back(token);
  }
  std::sort(biased.begin(), biased.end());
  const auto twice = std::adjacent_find(biased.begin(), biased.end());
  if (twice != biased.end()) Fail(ErrorKind::kInvalid, "logit_bias names token {} twice", *twice);
}

}  // namespace hadal
