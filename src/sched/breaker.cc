#include "sched/breaker.h"

#include <algorithm>

#include "base/check.h"

namespace hadal {

std::string_view Name(BreakerState state) {
  switch (state) {
    case BreakerState::kClosed:
      return "closed";
    case BreakerState::kShedding:
      return "shedding";
    case BreakerState::kProbing:
      return "probing";
  }
  HADAL_CHECK(false);
  return {};
}

void Breaker::Enter(BreakerState state, TimePoint now) {
  // Between closed and open the level's clock starts again; between shedding and probing it runs
  // on.
  if (state == BreakerState::kClosed || state_ == BreakerState::kClosed) level_changed_ = now;
  state_ = state;
  entered_ = now;
  ++transitions_;
}

void Breaker::UpdateDegradation(TimePoint now) {
  if (Seconds(level_changed_, now) < limits_.degradation_seconds) return;
  const bool closed = state_ == BreakerState::kClosed;
  if (closed && degradation_ > 0) --degradation_;
  if (!closed && degradation_ < kMaxDegradation) ++degradation_;
  level_changed_ = now;
}

void Breaker::Update(double predicted_wait, TimePoint now) {
  predicted_wait_ = predicted_wait;
  if (limits_.max_wait <= 0) return;
  const double resume = limits_.max_wait * limits_.resume_fraction;
  if (state_ != BreakerState::kShedding && predicted_wait > limits_.max_wait) {
    Enter(BreakerState::kShedding, now);
  } else if (state_ == BreakerState::kShedding && predicted_wait < resume) {
    Enter(BreakerState::kProbing, now);
  } else if (state_ == BreakerState::kProbing && Seconds(entered_, now) >= limits_.probe_seconds) {
    Enter(BreakerState::kClosed, now);
  }
  UpdateDegradation(now);
}

bool Breaker::Admits() const {
  if (limits_.max_wait <= 0 || state_ == BreakerState::kClosed) return true;
  return state_ == BreakerState::kProbing &&
         predicted_wait_ < limits_.max_wait * limits_.resume_fraction;
}

double Breaker::RetryAfter() const {
  return std::clamp(predicted_wait_ - limits_.max_wait * limits_.resume_fraction, 1.0, 60.0);
}

}  // namespace hadal
