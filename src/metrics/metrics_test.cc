#include "metrics/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

namespace hadal {
namespace {

// A reader of the text format that shares nothing with its writer.
struct Exposition {
  std::map<std::string, std::string> types;  // family -> "counter", ...
  std::map<std::string, std::string> help;
  std::map<std::string, double> samples;                // "name{labels}" -> value
  std::map<std::string, std::set<std::string>> labels;  // sample name -> label names
};

Exposition Parse(const std::string& text) {
  Exposition result;
  std::istringstream lines(text);
  const std::regex sample(R"(([a-z0-9_]+)(\{([^}]*)\})? (\S+)( \d+)?)");
  const std::regex label(R"re(([a-z_]+)="([^"]*)")re");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (line.rfind("# TYPE ", 0) == 0) {
      std::istringstream words(line.substr(7));
      std::string name, type;
      words >> name >> type;
      EXPECT_TRUE(result.types.emplace(name, type).second) << line;
    } else if (line.rfind("# HELP ", 0) == 0) {
      const size_t space = line.find(' ', 7);
      result.help[line.substr(7, space - 7)] = line.substr(space + 1);
    } else if (std::regex_match(line, match, sample)) {
      EXPECT_TRUE(
          result.samples.emplace(match[1].str() + match[2].str(), std::stod(match[4])).second)
          << line;
      const std::string inside = match[3];
      auto& names = result.labels[match[1]];
      for (std::sregex_iterator it(inside.begin(), inside.end(), label), end; it != end; ++it) {
        names.insert((*it)[1]);
      }
    } else {
      ADD_FAILURE() << "not in the text format: " << line;
    }
  }
  return result;
}

void ExpectFamilies(const Exposition& text, std::span<const MetricSpec> table, const char* type) {
  for (const MetricSpec& spec : table) {
    const std::string name(spec.name);
    EXPECT_TRUE(std::regex_match(name, std::regex("hadal_[a-z0-9]+(_[a-z0-9]+)*"))) << name;
    EXPECT_EQ(text.types.count(name) ? text.types.at(name) : "", type) << name;
    EXPECT_EQ(text.help.count(name) ? text.help.at(name) : "", spec.help) << name;
    std::set<std::string> labels;
    for (const LabelSpec& label : spec.labels) {
      if (!label.name.empty()) labels.insert(std::string(label.name));
    }
    if (std::string_view(type) == "histogram") {
      EXPECT_EQ(text.labels.at(name + "_count"), labels);
      labels.insert("le");
      EXPECT_EQ(text.labels.at(name + "_bucket"), labels);
    } else {
      EXPECT_EQ(text.labels.at(name), labels) << name;
    }
  }
}

TEST(Metrics, EverySeriesExistsAndIsFiniteBeforeTheFirstRequest) {
  Metrics metrics;
  metrics.ReserveExperts(2, 3);
  const Exposition text = Parse(metrics.Text());
  ExpectFamilies(text, CounterTable(), "counter");
  ExpectFamilies(text, GaugeTable(), "gauge");
  ExpectFamilies(text, HistogramTable(), "histogram");
  EXPECT_EQ(text.types.size(),
            CounterTable().size() + GaugeTable().size() + HistogramTable().size());
  for (const auto& [name, value] : text.samples) EXPECT_TRUE(std::isfinite(value)) << name;
  EXPECT_EQ(text.samples.count("hadal_expert_tokens_total{expert=\"2\",layer=\"1\"}") +
                text.samples.count("hadal_expert_tokens_total{layer=\"1\",expert=\"2\"}"),
            1u);
  EXPECT_EQ(text.samples.at("hadal_breaker_state{state=\"closed\"}"), 1);
  EXPECT_GT(text.samples.at("hadal_process_resident_bytes"), 1e6);
}

TEST(Metrics, CountersEndInTotalAndOthersDoNot) {
  for (const MetricSpec& spec : CounterTable()) {
    EXPECT_TRUE(spec.name.substr(spec.name.size() - 6) == "_total") << spec.name;
  }
  for (const auto table : {GaugeTable(), HistogramTable()}) {
    for (const MetricSpec& spec : table) {
      EXPECT_EQ(spec.name.find("_total"), std::string_view::npos) << spec.name;
      if (spec.unit == "seconds" || spec.unit == "bytes" || spec.unit == "ratio") {
        EXPECT_NE(spec.name.find("_" + std::string(spec.unit)), std::string_view::npos)
            << spec.name;
      }
    }
  }
  for (const MetricSpec& spec : HistogramTable()) {
    ASSERT_FALSE(spec.buckets.empty()) << spec.name;
    for (size_t i = 1; i < spec.buckets.size(); ++i) {
      EXPECT_LT(spec.buckets[i - 1], spec.buckets[i]) << spec.name;
    }
  }
}

TEST(Metrics, UpdatesReachTheText) {
  Metrics metrics;
  metrics.Add(Counter::kPromptTokens, 17);
  metrics.Add(Counter::kPreemptions, 1, {"swap"});
  metrics.Add(Counter::kHttpRequests, 2, {"chat", "4xx"});
  metrics.Set(Gauge::kRunning, 5);
  metrics.Change(Gauge::kHttpConnectionsOpen, 3);
  metrics.Change(Gauge::kHttpConnectionsOpen, -1);
  metrics.SetState(Gauge::kBreakerState, "shedding");
  metrics.Observe(Histogram::kBatchSize, 3);
  metrics.Observe(Histogram::kBatchSize, 4);
  metrics.Observe(Histogram::kBatchSize, 5000);
  const Exposition text = Parse(metrics.Text());
  EXPECT_EQ(text.samples.at("hadal_prompt_tokens_total"), 17);
  EXPECT_EQ(text.samples.at("hadal_preemptions_total{kind=\"swap\"}"), 1);
  EXPECT_EQ(text.samples.at("hadal_preemptions_total{kind=\"recompute\"}"), 0);
  EXPECT_EQ(text.samples.at("hadal_http_requests_total{route=\"chat\",status=\"4xx\"}"), 2);
  EXPECT_EQ(text.samples.at("hadal_requests_running"), 5);
  EXPECT_EQ(text.samples.at("hadal_http_connections_open"), 2);
  EXPECT_EQ(text.samples.at("hadal_breaker_state{state=\"closed\"}"), 0);
  EXPECT_EQ(text.samples.at("hadal_breaker_state{state=\"shedding\"}"), 1);
  EXPECT_EQ(text.samples.at("hadal_batch_size_bucket{le=\"2\"}"), 0);
  EXPECT_EQ(text.samples.at("hadal_batch_size_bucket{le=\"4\"}"), 2);
  EXPECT_EQ(text.samples.at("hadal_batch_size_bucket{le=\"+Inf\"}"), 3);
  EXPECT_EQ(text.samples.at("hadal_batch_size_sum"), 5007);
}

TEST(Metrics, IgnoresWhatIsNotFinite) {
  Metrics metrics;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  metrics.Set(Gauge::kKvUsage, 0.5);
  metrics.Set(Gauge::kKvUsage, nan);
  metrics.Add(Counter::kPromptTokens, INFINITY);
  metrics.Observe(Histogram::kQueueTime, nan);
  EXPECT_EQ(metrics.Value(Gauge::kKvUsage), 0.5);
  EXPECT_EQ(metrics.Value(Counter::kPromptTokens), 0);
  EXPECT_EQ(metrics.Count(Histogram::kQueueTime), 0);
}

TEST(Metrics, CountsFromManyThreads) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&metrics] {
      for (int i = 0; i < 1000; ++i) {
        metrics.Add(Counter::kSteps, 1, {"decode"});
        metrics.Observe(Histogram::kStepTime, 0.01);
        if (i % 250 == 0) metrics.Text();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(metrics.Value(Counter::kSteps, {"decode"}), 4000);
  EXPECT_EQ(metrics.Count(Histogram::kStepTime), 4000);
}

void AppendRows(std::string& out, std::span<const MetricSpec> table, const char* type) {
  for (const MetricSpec& spec : table) {
    std::string labels;
    for (const LabelSpec& label : spec.labels) {
      if (label.name.empty()) continue;
      if (!labels.empty()) labels += "; ";
      labels += "`" + std::string(label.name) + "`: ";
      labels += label.values == kNumberedLabel ? "numbers" : std::string(label.values);
    }
    out += "| `" + std::string(spec.name) + "` | " + type + " | " + std::string(spec.unit) + " | " +
           labels + " | " + std::string(spec.help) + " |\n";
  }
}

// With HADAL_UPDATE_DOCS set the test rewrites the table instead of comparing it.
TEST(Metrics, DocsListTheTable) {
  std::string expected = "| name | type | unit | labels | meaning |\n|---|---|---|---|---|\n";
  AppendRows(expected, CounterTable(), "counter");
  AppendRows(expected, GaugeTable(), "gauge");
  AppendRows(expected, HistogramTable(), "histogram");

  const std::string path = HADAL_SOURCE_DIR "/docs/metrics.md";
  std::stringstream file;
  file << std::ifstream(path).rdbuf();
  const std::string text = file.str();
  const size_t begin = text.find("| name |");
  ASSERT_NE(begin, std::string::npos) << path;
  const size_t end = text.find("\n\n", begin) + 1;
  if (std::getenv("HADAL_UPDATE_DOCS") != nullptr) {
    std::ofstream(path) << text.substr(0, begin) << expected << text.substr(end);
    return;
  }
  EXPECT_EQ(text.substr(begin, end - begin), expected) << "run this test with HADAL_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace hadal
