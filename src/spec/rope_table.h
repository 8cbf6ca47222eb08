// RopeSpec -> cos and sin. The ops receive these values and know nothing of scaling.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "spec/rope_spec.h"

namespace hadal {

// Immutable after construction; thread-safe.
class RopeTable {
 public:
  // Throws Error(kBadFile) naming the field when the spec contradicts itself (odd dim, factor < 1
  // where that is meaningless, missing factors, non-finite numbers).
  explicit RopeTable(RopeSpec spec);

  // True for the kinds whose frequencies depend on the length of the sequence (dynamic NTK,
  // LongRoPE): then `length` below matters and KV pages are keyed by it.
  bool length_dependent() const;

  // Inverse frequencies in float64 for a sequence of `length` tokens: dim/2 values.
  // Formulas: the RoPE README of the fixtures; Hugging Face modeling_rope_utils; DeepSeek model.py.
  std::vector<double> InverseFrequencies(uint64_t length) const;

  // Factor on cos and sin (YaRN's attention factor; 1 for most kinds).
  double attention_scaling() const { return attention_scaling_; }

  // Factor on the softmax scale: DeepSeek's (0.1 mscale_all_dim ln(factor) + 1)^2, otherwise 1.
  double softmax_correction() const { return softmax_correction_; }

  // Writes cos and sin (times attention_scaling) of `position` for the dim/2 frequencies, computed
  // in float64 and rounded once. cos and sin have dim/2 elements.
  void CosSin(uint64_t position, uint64_t length, std::span<float> cos, std::span<float> sin) const;

  // The same from frequencies that InverseFrequencies returned, for callers that keep them: one
  // length serves many tokens.
  void CosSin(uint64_t position, std::span<const double> frequencies, std::span<float> cos,
              std::span<float> sin) const;

  // A sentence for people: "YaRN, factor 40 over 4096 original tokens (to 163840) ...".
  std::string Describe() const;

  const RopeSpec& spec() const { return spec_; }

 private:
  RopeSpec spec_;
  double attention_scaling_ = 1.0;
  double softmax_correction_ = 1.0;
  std::vector<double> fixed_;  // frequencies when they do not depend on the length
};

}  // namespace hadal
