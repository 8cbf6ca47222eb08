// Refuses early instead of timing out late: a circuit breaker on the predicted waiting time.
#pragma once

#include <cstdint>
#include <string_view>

#include "sched/sequence.h"

namespace hadal {

// closed -> shedding when the predicted wait exceeds the limit; shedding -> probing when it has
// fallen well below; probing -> closed when it stays there, or back to shedding when it does not.
enum class BreakerState : uint8_t { kClosed, kShedding, kProbing };
std::string_view Name(BreakerState state);  // "closed", "shedding", "probing"

struct BreakerLimits {
  double max_wait = 0;             // seconds of predicted waiting; 0: never sheds
  double resume_fraction = 0.5;    // of max_wait: below it, requests are let in to probe
  double probe_seconds = 2;        // of calm before it closes
  double degradation_seconds = 5;  // each level takes so long to come, and to go
};

inline constexpr uint32_t kMaxDegradation = 3;

// Pure: predictions and times are given. Used by one thread at a time.
class Breaker {
 public:
  explicit Breaker(const BreakerLimits& limits) : limits_(limits) {}

  // Takes the newest prediction; call it before each Admits.
  void Update(double predicted_wait, TimePoint now);

  // Whether a request with that prediction may come in now.
  bool Admits() const;
  // Seconds after which another try makes sense, at least 1.
  double RetryAfter() const;

  BreakerState state() const { return state_; }
  double predicted_wait() const { return predicted_wait_; }
  // How much service is reduced: 0 in peace, one more for each degradation_seconds out of the
  // closed state, one less for each inside it. 1: smaller chunks; 2: and fewer choices; 3: and
  // shorter answers, the last two where the operator allows them.
  uint32_t degradation() const { return degradation_; }
  uint64_t transitions() const { return transitions_; }

 private:
  void Enter(BreakerState state, TimePoint now);
  void UpdateDegradation(TimePoint now);

  BreakerLimits limits_;
  BreakerState state_ = BreakerState::kClosed;
  double predicted_wait_ = 0;
  uint32_t degradation_ = 0;
  uint64_t transitions_ = 0;
  TimePoint entered_{};        // the state
  TimePoint level_changed_{};  // or the direction in which it would change
};

}  // namespace hadal
