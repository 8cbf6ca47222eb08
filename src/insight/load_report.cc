#include "insight/load_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace hadal::load {
namespace {

constexpr double kMs = 1000;

// Tokens of each chunk of a request, the sum of them being its output; true when the server said
// so.
bool TokensPerChunk(const RequestResult& result, std::vector<double>& tokens) {
  const size_t n = result.chunks.size();
  tokens.assign(n, static_cast<double>(result.output_tokens) / static_cast<double>(n));
  const auto silent = [](const Chunk& chunk) { return chunk.tokens_so_far == 0; };
  if (std::any_of(result.chunks.begin(), result.chunks.end(), silent)) {
    return n == result.output_tokens;
  }
  uint32_t before = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t now = std::max(before, result.chunks[i].tokens_so_far);
    tokens[i] = now - before;
    before = now;
  }
  return true;
}

size_t PeakConcurrency(std::span<const RequestResult> results) {
  std::vector<std::pair<double, int>> changes;
  for (const RequestResult& result : results) {
    changes.emplace_back(result.start, 1);
    changes.emplace_back(result.end, -1);
  }
  std::sort(changes.begin(), changes.end());  // an end before a start of the same moment
  int now = 0, peak = 0;
  for (const auto& [at, change] : changes) peak = std::max(peak, now += change);
  return static_cast<size_t>(peak);
}

// Samples of all completed requests, in milliseconds.
struct Samples {
  std::vector<double> ttft, tpot, e2el, itl_chunk, itl_token, refusal;
  std::map<int64_t, double> per_second;
  bool exact = true;

  void Add(const RequestResult& result) {
    e2el.push_back(kMs * (result.end - result.start));
    if (result.chunks.empty()) return;
    const double first = result.chunks.front().at;
    ttft.push_back(kMs * (first - result.start));
    if (result.output_tokens > 1) {
      tpot.push_back(kMs * (result.end - first) / (result.output_tokens - 1));
    }
    std::vector<double> tokens;
    exact &= TokensPerChunk(result, tokens);
    per_second[static_cast<int64_t>(first)] += tokens[0];
    for (size_t i = 1; i < tokens.size(); ++i) {
      const double gap = kMs * (result.chunks[i].at - result.chunks[i - 1].at);
      itl_chunk.push_back(gap);
      per_second[static_cast<int64_t>(result.chunks[i].at)] += tokens[i];
      // As many samples as tokens, so that a percentile is one over tokens.
      const auto n = static_cast<size_t>(std::max(1.0, std::round(tokens[i])));
      itl_token.insert(itl_token.end(), n, gap / std::max(1.0, tokens[i]));
    }
  }
};

void AppendBlock(const char* title, const char* name, const Summary& summary,
                 std::span<const double> percents, std::string& out) {
  out += fmt::format("{:-^50}\n", title);
  const auto line = [&](const std::string& what, double value) {
    out += fmt::format("{:<40} {:<10.2f}\n", fmt::format("{} {} (ms):", what, name), value);
  };
  line("Mean", summary.mean);
  line("Median", summary.median);
  for (size_t i = 0; i < percents.size(); ++i) {
    line(fmt::format("P{:g}", percents[i]), summary.percentiles[i]);
  }
}

void AddSummary(const char* name, const Summary& summary, std::span<const double> percents,
                OrderedJson& json) {
  json[fmt::format("mean_{}_ms", name)] = summary.mean;
  json[fmt::format("median_{}_ms", name)] = summary.median;
  json[fmt::format("std_{}_ms", name)] = summary.stddev;
  for (size_t i = 0; i < percents.size(); ++i) {
    json[fmt::format("p{:g}_{}_ms", percents[i], name)] = summary.percentiles[i];
  }
}

void AddDetails(std::span<const RequestResult> results, OrderedJson& json) {
  for (const char* key : {"input_lens", "output_lens", "ttfts", "itls", "errors", "start_times",
                          "latencies", "outcomes", "statuses"}) {
    json[key] = OrderedJson::array();
  }
  for (const RequestResult& result : results) {
    json["input_lens"].push_back(result.prompt_tokens);
    json["output_lens"].push_back(result.output_tokens);
    json["ttfts"].push_back(result.chunks.empty() ? 0 : result.chunks[0].at - result.start);
    OrderedJson gaps = OrderedJson::array();
    for (size_t i = 1; i < result.chunks.size(); ++i) {
      gaps.push_back(result.chunks[i].at - result.chunks[i - 1].at);
    }
    json["itls"].push_back(std::move(gaps));
    json["errors"].push_back(result.problem);
    json["start_times"].push_back(result.start);
    json["latencies"].push_back(result.end - result.start);
    json["outcomes"].push_back(Name(result.outcome));
    json["statuses"].push_back(result.status);
  }
}

double PerSecond(double count, const LoadReport& report) {
  return report.duration > 0 ? count / report.duration : 0;
}

}  // namespace

std::string_view Name(Outcome outcome) {
  constexpr std::string_view kNames[] = {"ok", "refused", "lost", "cut", "hung", "broken"};
  return kNames[static_cast<size_t>(outcome)];
}

double Percentile(std::span<const double> sorted, double percent) {
  if (sorted.empty()) return 0;
  const double at = percent / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Summary Summarize(std::vector<double> samples, std::span<const double> percents) {
  Summary summary;
  summary.n = samples.size();
  summary.percentiles.assign(percents.size(), 0);
  if (samples.empty()) return summary;
  std::sort(samples.begin(), samples.end());
  double sum = 0, squares = 0;
  for (const double sample : samples) sum += sample;
  summary.mean = sum / static_cast<double>(samples.size());
  for (const double sample : samples) {
    squares += (sample - summary.mean) * (sample - summary.mean);
  }
  summary.stddev = std::sqrt(squares / static_cast<double>(samples.size()));
  summary.median = Percentile(samples, 50);
  for (size_t i = 0; i < percents.size(); ++i) {
    summary.percentiles[i] = Percentile(samples, percents[i]);
  }
  return summary;
}

LoadReport MakeReport(std::span<const RequestResult> results, std::vector<double> percents) {
  LoadReport report;
  Samples samples;
  double first = std::numeric_limits<double>::infinity(), last = 0;
  for (const RequestResult& result : results) {
    first = std::min(first, result.start);
    last = std::max(last, result.end);
    ++report.outcomes[result.outcome];
    if (result.outcome != Outcome::kOk) {
      ++report.failed;
      const std::string what =
          result.status != 0 ? std::to_string(result.status) : std::string(Name(result.outcome));
      ++report.errors[what + ": " + result.problem];
      if (result.outcome == Outcome::kRefused) {
        samples.refusal.push_back(kMs * (result.answer - result.start));
      }
      continue;
    }
    ++report.completed;
    report.input_tokens += result.prompt_tokens;
    report.output_tokens += result.output_tokens;
    if (result.cached_tokens) {
      report.cached_tokens = report.cached_tokens.value_or(0) + *result.cached_tokens;
    }
    samples.Add(result);
  }
  report.duration = results.empty() ? 0 : last - first;
  report.peak_concurrency = PeakConcurrency(results);
  for (const auto& [second, tokens] : samples.per_second) {
    report.peak_output_throughput = std::max(report.peak_output_throughput, tokens);
  }
  report.ttft = Summarize(std::move(samples.ttft), percents);
  report.tpot = Summarize(std::move(samples.tpot), percents);
  report.e2el = Summarize(std::move(samples.e2el), percents);
  report.itl_chunk = Summarize(std::move(samples.itl_chunk), percents);
  report.itl_token = Summarize(std::move(samples.itl_token), percents);
  report.itl_token_exact = samples.exact;
  report.refusal = Summarize(std::move(samples.refusal), percents);
  report.percents = std::move(percents);
  return report;
}

std::string ToText(const LoadReport& report, const RunFacts& facts) {
  std::string out = fmt::format("{:=^50}\n", " Serving Benchmark Result ");
  const auto count = [&out](const char* what, uint64_t value) {
    out += fmt::format("{:<40} {:<10}\n", what, value);
  };
  const auto number = [&out](const char* what, double value) {
    out += fmt::format("{:<40} {:<10.2f}\n", what, value);
  };
  count("Successful requests:", report.completed);
  count("Failed requests:", report.failed);
  if (facts.max_concurrency > 0) count("Maximum request concurrency:", facts.max_concurrency);
  if (std::isfinite(facts.request_rate)) {
    number("Request rate configured (RPS):", facts.request_rate);
  }
  number("Benchmark duration (s):", report.duration);
  count("Total input tokens:", report.input_tokens);
  if (report.cached_tokens) count("Cached input tokens:", *report.cached_tokens);
  count("Total generated tokens:", report.output_tokens);
  number("Request throughput (req/s):", PerSecond(static_cast<double>(report.completed), report));
  const auto generated = static_cast<double>(report.output_tokens);
  number("Output token throughput (tok/s):", PerSecond(generated, report));
  number("Peak output token throughput (tok/s):", report.peak_output_throughput);
  count("Peak concurrent requests:", report.peak_concurrency);
  number("Total token throughput (tok/s):",
         PerSecond(generated + static_cast<double>(report.input_tokens), report));
  AppendBlock("Time to First Token", "TTFT", report.ttft, report.percents, out);
  AppendBlock("Time per Output Token (excl. 1st token)", "TPOT", report.tpot, report.percents, out);
  AppendBlock("Inter-token Latency (per chunk)", "ITL", report.itl_chunk, report.percents, out);
  AppendBlock(report.itl_token_exact ? "Inter-token Latency (per token)"
                                     : "Inter-token Latency (per token, estimated)",
              "ITL/token", report.itl_token, report.percents, out);
  AppendBlock("End-to-end Latency", "E2EL", report.e2el, report.percents, out);
  if (report.failed > 0) {
    out += fmt::format("{:-^50}\n", "Failures");
    for (const auto& [outcome, n] : report.outcomes) {
      if (outcome != Outcome::kOk) count(fmt::format("{}:", Name(outcome)).c_str(), n);
    }
    for (const auto& [error, n] : report.errors) out += fmt::format("{:>6} x {}\n", n, error);
  }
  return out + std::string(50, '=') + "\n";
}

OrderedJson ToJson(const LoadReport& report, const RunFacts& facts,
                   std::span<const RequestResult> results) {
  OrderedJson json = {{"date", facts.date},
                      {"endpoint_type", facts.endpoint},
                      {"base_url", facts.url},
                      {"model_id", facts.model},
                      {"tokenizer_id", facts.tokenizer},
                      {"num_prompts", report.completed + report.failed}};
  if (std::isfinite(facts.request_rate)) {
    json["request_rate"] = facts.request_rate;
  } else {
    json["request_rate"] = "inf";
  }
  json["max_concurrency"] =
      facts.max_concurrency > 0 ? OrderedJson(facts.max_concurrency) : OrderedJson(nullptr);
  json["duration"] = report.duration;
  json["completed"] = report.completed;
  json["failed"] = report.failed;
  json["total_input_tokens"] = report.input_tokens;
  json["total_output_tokens"] = report.output_tokens;
  json["total_cached_tokens"] =
      report.cached_tokens ? OrderedJson(*report.cached_tokens) : OrderedJson(nullptr);
  const auto generated = static_cast<double>(report.output_tokens);
  json["request_throughput"] = PerSecond(static_cast<double>(report.completed), report);
  json["output_throughput"] = PerSecond(generated, report);
  json["total_token_throughput"] =
      PerSecond(generated + static_cast<double>(report.input_tokens), report);
  json["max_output_tokens_per_s"] = report.peak_output_throughput;
  json["max_concurrent_requests"] = report.peak_concurrency;
  AddSummary("ttft", report.ttft, report.percents, json);
  AddSummary("tpot", report.tpot, report.percents, json);
  AddSummary("itl", report.itl_chunk, report.percents, json);
  AddSummary("itl_per_token", report.itl_token, report.percents, json);
  AddSummary("e2el", report.e2el, report.percents, json);
  AddSummary("refusal", report.refusal, report.percents, json);
  json["itl_per_token_exact"] = report.itl_token_exact;
  json["outcome_counts"] = OrderedJson::object();
  for (int i = 0; i <= static_cast<int>(Outcome::kBroken); ++i) {
    const auto outcome = static_cast<Outcome>(i);
    const auto found = report.outcomes.find(outcome);
    json["outcome_counts"][std::string(Name(outcome))] =
        found == report.outcomes.end() ? 0 : found->second;
  }
  json["error_counts"] = report.errors;
  if (!results.empty()) AddDetails(results, json);
  return json;
}

}  // namespace hadal::load
