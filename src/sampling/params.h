// How a request wants its tokens chosen. Plain data; the formulas stand in sampler.h.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace hadal {

// "Don't repeat yourself": penalises the token that would continue a repeated run.
struct DryParams {
  float multiplier = 0;  // 0: off
  float base = 1.75f;
  uint32_t allowed_length = 2;    // runs shorter than this are free
  uint32_t range = 0;             // last tokens looked at; 0: all
  std::vector<int32_t> breakers;  // tokens that no run crosses, ascending
};

struct SamplingParams {
  float temperature = 1.0f;  // 0: greedy
  int32_t top_k = 0;         // 0: off
  float top_p = 1.0f;        // 1: off
  float min_p = 0.0f;        // 0: off
  float typical_p = 1.0f;    // 1: off

  float repetition_penalty = 1.0f;  // prompt and generated tokens; 1: off
  float presence_penalty = 0.0f;    // generated tokens
  float frequency_penalty = 0.0f;   // generated tokens
  DryParams dry;
  std::vector<std::pair<int32_t, float>> logit_bias;  // added to the logit; one entry per token

  uint32_t min_tokens = 0;  // before so many tokens, none that would end the text is chosen
  bool ignore_eos = false;  // the model's end tokens do not end the text (they may be chosen)

  std::optional<uint64_t> seed;  // drawn by the engine, and reported, when absent
  int32_t logprobs = -1;         // -1: none; k: the chosen token's and the k best
};

inline constexpr int32_t kMaxLogprobs = 64;

// Throws Error(kInvalid) naming the field, its value and its range.
void Validate(const SamplingParams& params, uint32_t vocab);

}  // namespace hadal
