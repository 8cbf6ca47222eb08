// ONE closed table of every counter, gauge and histogram: /metrics, docs/metrics.md and the tests
// are derived from it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace hadal {

// In the order of CounterTable().
enum class Counter : uint8_t {
  kFinished,
  kAborted,
  kRejected,
  kPromptTokens,
  kGeneratedTokens,
  kReasoningTokens,
  kPrefixQueryTokens,
  kPrefixHitTokens,
  kEvictedPages,
  kPreemptions,
  kSwappedPages,
  kSwapFailures,
  kDraftTokens,
  kAcceptedDraftTokens,
  kSteps,
  kPreparationFailures,
  kExpertTokens,
  kBreakerTransitions,
  kDegradedRequests,
  kUnknownParameters,
  kMissingReasoning,
  kHttpRequests,
  kHttpConnections,
  kHttpConnectionsCut,
};

// In the order of GaugeTable().
enum class Gauge : uint8_t {
  kReady,
  kRunning,
  kWaiting,
  kSwapped,
  kQueueLength,
  kPredictedQueueSeconds,
  kKvUsage,
  kKvPages,
  kKvFreePages,
  kKvCachedPages,
  kKvPromisedPages,
  kKvFragmentation,
  kSwapUsedBytes,
  kBreakerState,
  kDegradationLevel,
  kPlannedBytes,
  kReservedBytes,
  kUsedBytes,
  kResidentBytes,
  kStartTime,
  kLoadSeconds,
  kHttpConnectionsOpen,
  kHttpRequestsInFlight,
};

// In the order of HistogramTable().
enum class Histogram : uint8_t {
  kTimeToFirstToken,
  kInterTokenLatency,
  kEndToEnd,
  kQueueTime,
  kPrefillTime,
  kDecodeTime,
  kStepTime,
  kBatchSize,
  kStepTokens,
  kPreparationTime,
  kRequestPromptTokens,
  kRequestGeneratedTokens,
  kHttpFirstByte,
};

// A label and all the values it can have; `values` are separated by spaces. Absent: empty name.
struct LabelSpec {
  std::string_view name;
  std::string_view values;
};

struct MetricSpec {
  std::string_view name;  // "hadal_..."; counters end in _total
  std::string_view unit;  // "seconds", "bytes", "tokens", "pages", "ratio", "1" (a plain count)
  std::string_view help;
  std::array<LabelSpec, 2> labels = {};
  std::span<const double> buckets = {};  // histograms: upper bounds, ascending
};

// Label values that are known only when a model is loaded (layer and expert numbers).
inline constexpr std::string_view kNumberedLabel = "#";

std::span<const MetricSpec> CounterTable();
std::span<const MetricSpec> GaugeTable();
std::span<const MetricSpec> HistogramTable();

inline const MetricSpec& Spec(Counter id) {
  return CounterTable()[static_cast<size_t>(id)];
}
inline const MetricSpec& Spec(Gauge id) {
  return GaugeTable()[static_cast<size_t>(id)];
}
inline const MetricSpec& Spec(Histogram id) {
  return HistogramTable()[static_cast<size_t>(id)];
}

}  // namespace hadal
