// Perplexity of a text, in overlapping windows.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace hadal {

struct PerplexityOptions {
  uint32_t window = 2048;  // tokens of one forward pass, at least 2
  uint32_t stride = 0;     // tokens the window moves on, at most `window`; 0: half of it
};

struct PerplexityProgress {
  uint64_t tokens_scored = 0;
  uint64_t tokens_total = 0;
  double perplexity = 0;  // so far
};

struct PerplexityResult {
  uint64_t tokens_scored = 0;  // all but the first token of the text, each once
  uint64_t windows = 0;
  double mean_nll = 0;  // natural logarithm
  double perplexity = 0;
  // Standard error of the perplexity, from that of the mean (delta method, tokens as independent).
  double standard_error = 0;
  double top1_accuracy = 0;  // share of tokens that were the model's most likely one
};

// Window k covers tokens [k*stride, k*stride + window); each token is scored in the first window
// that has it, so with at least window - stride tokens of context once past the start (Hugging
// Face's "strided" perplexity). `progress` is called after each window and may throw.
// Throws Error(kInvalid) for fewer than two tokens, Error(kUsage) for impossible options.
PerplexityResult MeasurePerplexity(Engine& engine, std::span<const int32_t> tokens,
                                   const PerplexityOptions& options,
                                   const std::function<void(const PerplexityProgress&)>& progress);

}  // namespace hadal
