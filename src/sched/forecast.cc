// How long a request that came now would wait.
#include <algorithm>

#include "sched/scheduler.h"

namespace hadal {

// A request's machine time is its prompt at the price of a full chunk plus its expected tokens at
// their share of a decode step. When everybody who comes is admitted at once, a newcomer waits for
// the prompts before it only; otherwise for as many departures as there are waiting requests and
// itself, and in the long run those come one mean machine time apart.
Scheduler::Forecast Scheduler::PredictWait() const {
  const uint64_t batch = std::max<uint64_t>(running_.size(), 1);
  uint64_t context = 0, prompts_left = 0, n = 0;
  double prompt_tokens = 0, output_tokens = 0;
  const auto add = [&](const Sequence& s) {
    ++n;
    prompt_tokens += s.prompt_size() - s.n_cached;
    output_tokens +=
        outputs_.Expected(static_cast<uint32_t>(s.generated.size()), s.request.max_tokens);
  };
  for (const SequencePtr& s : running_) {
    context += s->n_computed;
    if (s->state == SequenceState::kPrefill) prompts_left += s->size() - s->n_computed;
    add(*s);
  }
  waiting_.ForEach(add);
  for (const SequencePtr& s : dependents_) {
    ++n;
    output_tokens += outputs_.Expected(0, s->request.max_tokens);
  }
  const bool full = running_.size() >= limits_.max_sequences;
  const bool blocked = full || !waiting_.empty();
  Forecast forecast;
  forecast.lateness = lateness_;
  forecast.free_places =
      blocked ? 0 : limits_.max_sequences - static_cast<uint32_t>(running_.size());
  if (n == 0) return forecast;
  const StepShape decodes{.tokens = batch, .context = context + batch, .sequences = batch};
  StepShape with_chunk = decodes;
  with_chunk += RunShape(0, limits_.max_tokens);
  const double decode_seconds = cost_.Predict(decodes);
  forecast.prompt_second =
      (cost_.Predict(with_chunk) - decode_seconds) / static_cast<double>(limits_.max_tokens);
  forecast.service = (prompt_tokens * forecast.prompt_second +
                      output_tokens * decode_seconds / static_cast<double>(batch)) /
                     static_cast<double>(n);
  if (!blocked) {
    forecast.wait = static_cast<double>(prompts_left) * forecast.prompt_second;
  } else {
    forecast.wait = calibration_ * forecast.service * static_cast<double>(n_waiting() + 1);
  }
  return forecast;
}

// Follows the 99th percentile: a step up for whoever is later, a 99th of it down for the others.
void Scheduler::NoteFirstToken(const Sequence& sequence, TimePoint now) {
  if (sequence.predicted_ttft < kWorthComparing) return;
  const double ratio = Seconds(sequence.submitted, now) / sequence.predicted_ttft;
  lateness_ *= ratio > lateness_ ? 1.099 : 0.999;
  lateness_ = std::clamp(lateness_, 0.5, 5.0);
}

}  // namespace hadal
