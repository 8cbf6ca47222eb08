#include "insight/perplexity.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace hadal {
namespace {

class Tally {
 public:
  void Add(const TokenLogprobs& token) {
    const double nll = -token.chosen.logprob;
    ++n_;
    sum_ += nll;
    sum_of_squares_ += nll * nll;
    if (token.rank == 1) ++first_;
  }
  uint64_t n() const { return n_; }
  double Mean() const { return sum_ / static_cast<double>(n_); }
  double Perplexity() const { return std::exp(Mean()); }
  double StandardError() const {
    if (n_ < 2) return 0;
    const double n = static_cast<double>(n_);
    const double variance = std::max(0.0, (sum_of_squares_ - sum_ * sum_ / n) / (n - 1));
    return Perplexity() * std::sqrt(variance / n);
  }
  double FirstShare() const { return static_cast<double>(first_) / static_cast<double>(n_); }

 private:
  uint64_t n_ = 0, first_ = 0;
  double sum_ = 0, sum_of_squares_ = 0;
};

// Scores the tokens of `window` at positions >= first.
void ScoreWindow(Engine& engine, std::span<const int32_t> window, uint32_t first, Tally& tally) {
  Request request;
  request.prompt.assign(window.begin(), window.end());
  request.prompt_logprobs = true;
  request.max_tokens = 0;
  request.sampling.logprobs = 0;
  RequestHandle handle = engine.Submit(std::move(request));
  while (const std::optional<RequestEvent> event = handle.Next()) {
    if (const auto* finished = std::get_if<FinishedEvent>(&*event)) {
      if (finished->error) throw *finished->error;
    } else if (const auto* prompt = std::get_if<PromptEvent>(&*event)) {
      for (uint32_t i = 0; i < prompt->logprobs.size(); ++i) {
        if (prompt->first_position + i >= first) tally.Add(prompt->logprobs[i]);
      }
    }
  }
}

}  // namespace

PerplexityResult MeasurePerplexity(Engine& engine, std::span<const int32_t> tokens,
                                   const PerplexityOptions& options,
                                   const std::function<void(const PerplexityProgress&)>& progress) {
  if (tokens.size() < 2) {
    Fail(ErrorKind::kInvalid, "a text of {} tokens has no perplexity; at least 2 are needed",
         tokens.size());
  }
  const uint32_t window = options.window;
  const uint32_t stride = options.stride == 0 ? window / 2 : options.stride;
  if (window < 2 || stride < 1 || stride >= window) {
    Fail(ErrorKind::kUsage, "a window of {} tokens that moves on by {}: need 1 <= stride < window",
         window, stride);
  }
  Tally tally;
  PerplexityResult result;
  size_t scored_to = 1;  // the first token follows nothing
  for (size_t begin = 0; scored_to < tokens.size(); begin += stride) {
    const size_t end = std::min(begin + window, tokens.size());
    ScoreWindow(engine, tokens.subspan(begin, end - begin),
                static_cast<uint32_t>(scored_to - begin), tally);
    scored_to = end;
    ++result.windows;
    if (progress) progress({tally.n(), tokens.size() - 1, tally.Perplexity()});
  }
  result.tokens_scored = tally.n();
  result.mean_nll = tally.Mean();
  result.perplexity = tally.Perplexity();
  result.standard_error = tally.StandardError();
  result.top1_accuracy = tally.FirstShare();
  return result;
}

}  // namespace hadal
