#include "metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/check.h"

namespace hadal {
namespace {

std::vector<std::string_view> Split(std::string_view values) {
  std::vector<std::string_view> parts;
  while (!values.empty()) {
    const size_t end = values.find(' ');
    parts.push_back(values.substr(0, end));
    values = end == std::string_view::npos ? std::string_view{} : values.substr(end + 1);
  }
  return parts;
}

// One metric: its series lie in a row, the second label varying fastest.
template <typename Metric>
struct Family {
  prometheus::Family<Metric>* family = nullptr;
  std::array<std::vector<std::string_view>, 2> values;
  std::vector<Metric*> series;

  Metric& At(LabelValues labels) const {
    return *series[Index(values[0], labels.first) * std::max<size_t>(1, values[1].size()) +
                   Index(values[1], labels.second)];
  }

 private:
  static size_t Index(const std::vector<std::string_view>& values, std::string_view value) {
    if (values.empty()) {
      HADAL_CHECK(value.empty());
      return 0;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] == value) return i;
    }
    HADAL_CHECK(!"a label value that is not in the metric table");
    return 0;
  }
};

// Creates every series of a family whose label values the table knows. `args` go to each series.
template <typename Metric, typename... Args>
Family<Metric> MakeFamily(prometheus::detail::Builder<Metric> builder, const MetricSpec& spec,
                          prometheus::Registry& registry, const Args&... args) {
  Family<Metric> result;
  result.family =
      &builder.Name(std::string(spec.name)).Help(std::string(spec.help)).Register(registry);
  if (spec.labels[0].values == kNumberedLabel) return result;
  for (size_t i = 0; i < 2; ++i) result.values[i] = Split(spec.labels[i].values);
  for (size_t a = 0; a < std::max<size_t>(1, result.values[0].size()); ++a) {
    for (size_t b = 0; b < std::max<size_t>(1, result.values[1].size()); ++b) {
      prometheus::Labels labels;
      if (!result.values[0].empty()) {
        labels.emplace(spec.labels[0].name, result.values[0][a]);
      }
      if (!result.values[1].empty()) {
        labels.emplace(spec.labels[1].name, result.values[1][b]);
      }
      result.series.push_back(&result.family->Add(labels, args...));
    }
  }
  return result;
}

// Bytes of physical memory the process holds; 0 where the system does not say.
double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  double total = 0, resident = 0;
  if (!(statm >> total >> resident)) return 0;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

struct Metrics::Series {
  prometheus::Registry registry;
  std::vector<Family<prometheus::Counter>> counters;
  std::vector<Family<prometheus::Gauge>> gauges;
  std::vector<Family<prometheus::Histogram>> histograms;
  size_t n_layers = 0, n_experts = 0;

  const Family<prometheus::Counter>& Of(Counter id) const {
    return counters[static_cast<size_t>(id)];
  }
  const Family<prometheus::Gauge>& Of(Gauge id) const { return gauges[static_cast<size_t>(id)]; }
  const Family<prometheus::Histogram>& Of(Histogram id) const {
    return histograms[static_cast<size_t>(id)];
  }
};

Metrics::Metrics() : series_(std::make_unique<Series>()) {
  for (const MetricSpec& spec : CounterTable()) {
    series_->counters.push_back(MakeFamily(prometheus::BuildCounter(), spec, series_->registry));
  }
  for (const MetricSpec& spec : GaugeTable()) {
    series_->gauges.push_back(MakeFamily(prometheus::BuildGauge(), spec, series_->registry));
  }
  for (const MetricSpec& spec : HistogramTable()) {
    series_->histograms.push_back(
        MakeFamily(prometheus::BuildHistogram(), spec, series_->registry,
                   std::vector<double>(spec.buckets.begin(), spec.buckets.end())));
  }
  Set(Gauge::kStartTime, static_cast<double>(std::time(nullptr)));
  SetState(Gauge::kBreakerState, "closed");
}

Metrics::~Metrics() = default;

void Metrics::Add(Counter id, double n, LabelValues labels) {
  if (std::isfinite(n)) series_->Of(id).At(labels).Increment(n);
}

void Metrics::Set(Gauge id, double value, LabelValues labels) {
  if (std::isfinite(value)) series_->Of(id).At(labels).Set(value);
}

void Metrics::Change(Gauge id, double difference, LabelValues labels) {
  if (std::isfinite(difference)) series_->Of(id).At(labels).Increment(difference);
}

void Metrics::SetState(Gauge id, std::string_view state) {
  const Family<prometheus::Gauge>& family = series_->Of(id);
  family.At({state}).Set(1);
  for (size_t i = 0; i < family.values[0].size(); ++i) {
    if (family.values[0][i] != state) family.series[i]->Set(0);
  }
}

void Metrics::Observe(Histogram id, double value, LabelValues labels) {
  if (std::isfinite(value)) series_->Of(id).At(labels).Observe(value);
}

void Metrics::ReserveExperts(int n_layers, int n_experts) {
  HADAL_CHECK(n_layers >= 0 && n_experts >= 0 && int64_t{n_layers} * n_experts <= 1 << 20);
  HADAL_CHECK(series_->n_layers == 0);
  Family<prometheus::Counter>& family =
      series_->counters[static_cast<size_t>(Counter::kExpertTokens)];
  const std::array<LabelSpec, 2>& labels = Spec(Counter::kExpertTokens).labels;
  series_->n_layers = static_cast<size_t>(n_layers);
  series_->n_experts = static_cast<size_t>(n_experts);
  for (int layer = 0; layer < n_layers; ++layer) {
    for (int expert = 0; expert < n_experts; ++expert) {
      family.series.push_back(
          &family.family->Add({{std::string(labels[0].name), std::to_string(layer)},
                               {std::string(labels[1].name), std::to_string(expert)}}));
    }
  }
}

void Metrics::AddExpertTokens(int layer, int expert, double n) {
  const auto l = static_cast<size_t>(layer), e = static_cast<size_t>(expert);
  HADAL_CHECK(l < series_->n_layers && e < series_->n_experts);
  series_->Of(Counter::kExpertTokens).series[l * series_->n_experts + e]->Increment(n);
}

double Metrics::Value(Counter id, LabelValues labels) const {
  return series_->Of(id).At(labels).Value();
}

double Metrics::Value(Gauge id, LabelValues labels) const {
  return series_->Of(id).At(labels).Value();
}

double Metrics::Count(Histogram id, LabelValues labels) const {
  return static_cast<double>(series_->Of(id).At(labels).Collect().histogram.sample_count);
}

std::string Metrics::Text() {
  Set(Gauge::kResidentBytes, ResidentBytes());
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, series_->registry.Collect());
  return std::move(out).str();
}

}  // namespace hadal
