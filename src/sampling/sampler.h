// Chooses the next token. Every formula and their order, in one place:
//
// With x the model's logits (f32) and all arithmetic below in float64:
//   1. logit bias      x[t] += bias[t]
//   2. min tokens      x[t] = -inf for the tokens in `banned` (those that would end the text)
//   3. repetition      t in prompt or generated: x[t] = x[t] > 0 ? x[t] / r : x[t] * r
//   4. frequency, presence   with c = times t was generated: x[t] -= c * f + (c > 0) * p
//   5. DRY             x[t] -= multiplier * base^(n - allowed_length), with n >= allowed_length the
//                      length of the longest run of tokens before an earlier t that equals the end
//                      of the text (prompt and generated); runs do not cross breakers, and breakers
//                      are never penalised
//   6. temperature 0:  the largest x wins, the lowest id on a tie. Otherwise x /= temperature, and
//   7. top-k           the k largest remain
//   8. typical-p       with p the softmax of what remains and H its entropy, tokens in order of
//                      |-ln p - H|: the shortest beginning whose sum of p reaches typical_p remains
//   9. top-p           (p renormalised) in order of p: the shortest beginning that reaches top_p
//  10. min-p           tokens with p >= min_p * largest p remain
//  11. draw            u = Uniform(seed, prompt, choice, position): in id order, the first token
//                      whose cumulated p exceeds u * (sum of p)
// Ties in 7-9 go to the lower id; at least one token always remains. Steps 1-5 are vLLM's order
// (repetition over prompt and generated tokens, the additive penalties over generated ones alone),
// 7-10 that of llama.cpp, with the temperature first, as in vLLM.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/params.h"
#include "sampling/random.h"

namespace hadal {

// What came before the token to choose. Views.
struct SampleContext {
  std::span<const int32_t> prompt = {};
  std::span<const int32_t> generated = {};
  std::span<const int32_t> banned = {};  // step 2; empty once min_tokens are reached
  RandomKey random = {};
  // The token of the largest logit, the lowest on a tie, where it is known and every logit is
  // finite; else -1.
  int32_t largest = -1;
};

// Scratch space for one vocabulary; keeps nothing between calls, so that a sequence needs no
// sampler state. Used by one thread at a time.
class Sampler {
 public:
  explicit Sampler(uint32_t vocab);

  // REQUIRES: Validate(params) passed; token ids in range; logits.size() == vocab.
  // Throws Error(kNumeric) for unusable logits (see CheckLogits) or when nothing can be chosen.
  int32_t Sample(std::span<const float> logits, const SamplingParams& params,
                 const SampleContext& context);

 private:
  struct Candidate {
    double weight = 0;  // exp(x - max)
    double key = 0;     // typical-p: distance from the entropy
    int32_t id = 0;
  };

  void ApplyPenalties(const SamplingParams& params, const SampleContext& context);
  void ApplyDry(const DryParams& dry, const SampleContext& context);
  int32_t Draw(const SamplingParams& params, const SampleContext& context, double max);
  void CollectTopK(const SamplingParams& params, double max);
  void CollectHeaviest(double wanted);
  double CollectFrom(double limit);
  double CandidateMass() const;
  static bool Heavier(const Candidate& a, const Candidate& b);
  void KeepTypical(double typical_p, double total);
  void KeepMinP(double fraction);
  template <typename Before>
  void KeepBeginning(double wanted, Before before);

  uint32_t vocab_;
  std::vector<double> x_;              // [vocab]; in Draw, without top-k, weights
  std::vector<int32_t> best_;          // top-k, as a heap
  std::vector<Candidate> candidates_;  // what remains, in id order
  std::vector<uint32_t> counts_;       // [vocab]; zero between calls
  std::vector<int32_t> history_;       // DRY: the text, last token first
  std::vector<uint32_t> runs_;         // DRY: the Z function of history_
};

}  // namespace hadal
