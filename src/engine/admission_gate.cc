#include "engine/admission_gate.h"

#include <algorithm>

#include "base/check.h"

namespace hadal {

double AdmissionGate::PredictedWait() const {
  const uint32_t queued = pending_ - std::min(pending_, forecast_.free_places);
  return forecast_.wait + queued * forecast_.service;
}

// Seconds to the first token where others make it come too late; empty: it is in time, or would be
// late on an idle machine as well.
std::optional<double> AdmissionGate::TooLate(uint64_t prompt_tokens) const {
  if (limits_.breaker.max_wait <= 0 || limits_.ttft_target <= 0) return std::nullopt;
  const double alone =
      static_cast<double>(prompt_tokens) * forecast_.prompt_second * forecast_.lateness;
  const double ttft = alone + PredictedWait() * forecast_.lateness;
  if (alone >= limits_.ttft_target || ttft <= limits_.ttft_target) return std::nullopt;
  return ttft;
}

void AdmissionGate::Enter(uint32_t n, uint64_t prompt_tokens, TimePoint now) {
  const std::lock_guard lock(mutex_);
  breaker_.Update(PredictedWait(), now);
  const double retry_after = breaker_.RetryAfter();
  const auto refuse = [retry_after](std::string_view code, const std::string& why) {
    throw Error(ErrorKind::kResource, fmt::format("{}; try again in {:.0f} s", why, retry_after),
                {.code = code, .retry_after_seconds = retry_after});
  };
  const uint64_t queued = n_waiting_ + pending_ + n;
  const uint64_t most = limits_.max_queue;
  if (most > 0 && queued > most + forecast_.free_places) {
    refuse("queue_full", fmt::format("{} requests are waiting and no more than {} may",
                                     n_waiting_ + pending_, most));
  }
  if (!breaker_.Admits()) {
    refuse("overloaded", fmt::format("the server is overloaded: a request would wait {:.1f} s",
                                     breaker_.predicted_wait()));
  }
  if (const std::optional<double> ttft = TooLate(prompt_tokens)) {
    refuse("overloaded", fmt::format("the server is overloaded: the first token might come after "
                                     "{:.2f} s, and the target is {:.2f} s",
                                     *ttft, limits_.ttft_target));
  }
  pending_ += n;
}

void AdmissionGate::Taken(uint32_t n) {
  const std::lock_guard lock(mutex_);
  HADAL_CHECK(n <= pending_);
  pending_ -= n;
  // Until the next Update says more, those with a free place begin and the others wait.
  const uint32_t begin = std::min(n, forecast_.free_places);
  forecast_.free_places -= begin;
  n_waiting_ += n - begin;
  forecast_.wait += (n - begin) * forecast_.service;
}

void AdmissionGate::Update(const Scheduler::Forecast& forecast, uint64_t n_waiting, TimePoint now) {
  const std::lock_guard lock(mutex_);
  forecast_ = forecast;
  n_waiting_ = n_waiting;
  breaker_.Update(PredictedWait(), now);
}

AdmissionGate::State AdmissionGate::state() const {
  const std::lock_guard lock(mutex_);
  return {breaker_.state(), breaker_.degradation(), breaker_.predicted_wait(),
          breaker_.transitions(), pending_};
}

}  // namespace hadal
