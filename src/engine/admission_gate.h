// The door in front of the engine: a bounded queue and the circuit breaker, asked by any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "sched/breaker.h"
#include "sched/scheduler.h"

namespace hadal {

// Thread-safe. Between two steps many requests may come: those that the scheduler does not know of
// yet count as well.
class AdmissionGate {
 public:
  struct Limits {
    BreakerLimits breaker;
    uint32_t max_queue = 0;  // requests waiting for their first step; 0: no limit
    double ttft_target = 0;  // seconds to the first token; 0: none. Kept to if max_wait is set
  };
  explicit AdmissionGate(const Limits& limits) : limits_(limits), breaker_(limits.breaker) {}

  // Lets `n` requests for one prompt in, or throws Error(kResource) with retry_after_seconds. A
  // prompt too long for the TTFT target even alone is not held to it.
  void Enter(uint32_t n, uint64_t prompt_tokens, TimePoint now);
  // The scheduler has taken `n` of those let in.
  void Taken(uint32_t n);
  // The newest state of the scheduler.
  void Update(const Scheduler::Forecast& forecast, uint64_t n_waiting, TimePoint now);

  struct State {
    BreakerState breaker = BreakerState::kClosed;
    uint32_t degradation = 0;
    double predicted_wait = 0;
    uint64_t transitions = 0;
    uint32_t pending = 0;  // let in and not yet taken
  };
  State state() const;

 private:
  double PredictedWait() const;
  std::optional<double> TooLate(uint64_t prompt_tokens) const;

  const Limits limits_;
  mutable std::mutex mutex_;  // guards all below
  Breaker breaker_;
  Scheduler::Forecast forecast_;
  uint64_t n_waiting_ = 0;
  uint32_t pending_ = 0;
};

}  // namespace hadal
