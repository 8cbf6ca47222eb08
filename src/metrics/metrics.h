// What the process counts and measures, in Prometheus text format.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "metrics/metric_table.h"

namespace hadal {

// Values of a metric's labels, in the table's order.
struct LabelValues {
  std::string_view first = {}, second = {};
};

// Every series of the table exists, with value 0, from the start; only the expert series wait for
// ReserveExperts. All methods may be called from any thread, except ReserveExperts and the
// constructor. An update costs an atomic addition (a histogram: a short lock), plus a comparison of
// a few short names when the metric has labels. A metric or label value that is not in the table is
// our own bug (CHECK).
//
// Values that are not finite are ignored: a division by zero somewhere must not poison a dashboard.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Adds `n` >= 0.
  void Add(Counter id, double n = 1, LabelValues labels = {});
  void Set(Gauge id, double value, LabelValues labels = {});
  // Adds a difference of either sign, for gauges that count what comes and goes.
  void Change(Gauge id, double difference, LabelValues labels = {});
  // Makes `state` 1 and every other value of the gauge's label 0.
  void SetState(Gauge id, std::string_view state);
  void Observe(Histogram id, double value, LabelValues labels = {});

  // Makes the series of hadal_expert_tokens_total, n_layers x n_experts. Once, before the first
  // AddExpertTokens and before other threads use this object; bounded by 1 << 20 series.
  void ReserveExperts(int n_layers, int n_experts);
  void AddExpertTokens(int layer, int expert, double n);

  // Values as they are now; for tests, the page and the health of the server itself.
  double Value(Counter id, LabelValues labels = {}) const;
  double Value(Gauge id, LabelValues labels = {}) const;
  // Number of observations.
  double Count(Histogram id, LabelValues labels = {}) const;

  // The Prometheus text format, version 0.0.4. Reads the process's resident set on the way.
  std::string Text();
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct Series;
  std::unique_ptr<Series> series_;
};

}  // namespace hadal
