// What the engine thread counts and measures.
#pragma once

#include <cstdint>

#include "engine/admission_gate.h"
#include "engine/engine_stats.h"
#include "engine/event_channel.h"
#include "metrics/metrics.h"
#include "runner/runner.h"

namespace hadal {

// Used by the engine thread. With null metrics it does nothing.
class EngineMetrics {
 public:
  explicit EngineMetrics(Metrics* metrics) : metrics_(metrics) {}

  void Accepted(const SequenceRequest& request);
  // `channel` remembers when its last token came.
  void Token(EventChannel& channel, TimePoint now);
  void Finished(const EventChannel& channel, const FinishedEvent& end, TimePoint now);
  void Step(const StepPlan& plan, const PreparationTimes& preparation, double seconds);
  void StepFailed(const PreparationTimes& preparation);
  // All gauges, and the counters' growth since the last call.
  void Update(const EngineStats& stats, const SchedulerTotals& totals,
              const AdmissionGate::State& gate);

 private:
  Metrics* metrics_;
  EngineStats last_;
  SchedulerTotals last_totals_;
  uint64_t last_transitions_ = 0;
};

}  // namespace hadal
