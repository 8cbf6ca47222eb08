// The door in front of the engine: a bounded queue and the circuit breaker, asked by any thread.
#pragma once

#include <cstdint>
#include <mutex>

#include "sched/breaker.h"
#include "sched/scheduler.h"

namespace hadal {

// Thread-safe. Between two steps many requests may come: those that the scheduler does not know of
// yet count as well.
class AdmissionGate {
 public:
  // `max_queue`: requests waiting for their first step; 0: no limit.
  AdmissionGate(const BreakerLimits& limits, uint32_t max_queue)
      : breaker_(limits), max_queue_(max_queue) {}

  // Lets `n` requests in, or throws Error(kResource) with retry_after_seconds.
  void Enter(uint32_t n, TimePoint now);
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

  mutable std::mutex mutex_;  // guards all below
  Breaker breaker_;
  const uint32_t max_queue_;
  Scheduler::Forecast forecast_;
  uint64_t n_waiting_ = 0;
  uint32_t pending_ = 0;
};

}  // namespace hadal
