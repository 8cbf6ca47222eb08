// ONE description of rotary position embedding for every model, and the one place that turns it
// into numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hadal {

enum class RopeScaling : uint8_t {
  kNone,
  kLinear,
  kDynamicNtk,
  kNtkAware,
  kYarn,          // Hugging Face / Llama: attention factor on cos and sin
  kYarnDeepSeek,  // DeepSeek: mscale / mscale_all_dim on cos and sin, and a softmax correction
  kLlama3,
  kLongRope,
  kFrequencyFactors,  // explicit divisors per frequency (GGUF's rope_freqs.weight)
};

// Which elements of a head form a pair.
enum class RopeLayout : uint8_t {
  kHalfSplit,    // (i, i + dim/2)
  kInterleaved,  // (2i, 2i + 1)
};

struct RopeSpec {
  RopeScaling scaling = RopeScaling::kNone;
  RopeLayout layout = RopeLayout::kHalfSplit;
  uint32_t dim = 0;  // rotated elements of a head, even; the rest of the head passes through
  double theta = 10000.0;
  double factor = 1.0;
  uint64_t original_context = 0;  // context before scaling; 0: the scaling kind does not need it
  // YaRN
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  double attention_factor = 0.0;  // 0: from the formula
  double mscale = 0.0;
  double mscale_all_dim = 0.0;
  // Llama 3
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  // LongRoPE (both dim/2 values) and kFrequencyFactors (in long_factors)
  std::vector<double> short_factors = {};
  std::vector<double> long_factors = {};
  uint64_t max_context = 0;  // max_position_embeddings, for LongRoPE's and dynamic NTK's formulas
};

}  // namespace hadal
