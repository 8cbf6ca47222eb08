#include "insight/load_trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <numbers>

#include "base/error.h"
#include "base/json.h"

namespace hadal::load {
namespace {

constexpr uint32_t kMostTokens = 1 << 24;

uint32_t ReadLength(std::string_view text, std::string_view whole, std::string_view what) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 ||
      value > kMostTokens) {
    Fail(ErrorKind::kUsage,
         "{}: '{}' is none of N, uniform:LOW-HIGH, lognormal:LOW-HIGH with lengths of 1 to {}",
         what, whole, kMostTokens);
  }
  return value;
}

double Normal(std::mt19937_64& random) {
  // Box and Muller's transform; 1 - u keeps the logarithm finite.
  const double radius = std::sqrt(-2 * std::log(1 - Uniform01(random)));
  return radius * std::cos(2 * std::numbers::pi * Uniform01(random));
}

// Generators that share a seed but not their numbers.
std::mt19937_64 Stream(uint64_t seed, uint32_t number) {
  std::seed_seq sequence{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), number};
  return std::mt19937_64(sequence);
}

uint32_t Count(const Json& line, const char* key, uint32_t least) {
  const Json& value = line.at(key);
  if (!value.is_number_unsigned() || value.get<uint64_t>() < least ||
      value.get<uint64_t>() > kMostTokens) {
    Fail(ErrorKind::kBadFile, "{} is not a whole number from {} to {}", key, least, kMostTokens);
  }
  return value.get<uint32_t>();
}

TraceItem ReadItem(const std::string& text) {
  const Json line = ParseJson(text, "JSON");
  for (const char* key : {"arrival", "input_tokens", "output_tokens"}) {
    if (!line.is_object() || !line.contains(key)) Fail(ErrorKind::kBadFile, "no \"{}\"", key);
  }
  for (const auto& [key, value] : line.items()) {
    if (key != "arrival" && key != "input_tokens" && key != "output_tokens" && key != "prefix" &&
        key != "prefix_tokens") {
      Fail(ErrorKind::kBadFile, "\"{}\" is no member of a trace", key);
    }
  }
  TraceItem item;
  if (!line.at("arrival").is_number() || line.at("arrival").get<double>() < 0) {
    Fail(ErrorKind::kBadFile, "arrival is not a number of seconds");
  }
  item.arrival = line.at("arrival").get<double>();
  item.input_tokens = Count(line, "input_tokens", 1);
  item.output_tokens = Count(line, "output_tokens", 1);
  if (line.contains("prefix") != line.contains("prefix_tokens")) {
    Fail(ErrorKind::kBadFile, "prefix and prefix_tokens go together");
  }
  if (line.contains("prefix")) {
    item.prefix = Count(line, "prefix", 0);
    item.prefix_tokens = Count(line, "prefix_tokens", 1);
    if (item.prefix_tokens > item.input_tokens) {
      Fail(ErrorKind::kBadFile, "prefix_tokens is more than input_tokens");
    }
  }
  return item;
}

}  // namespace

double Uniform01(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * 0x1.0p-53;
}

uint32_t Lengths::Draw(std::mt19937_64& random) const {
  if (kind == Kind::kFixed || low == high) return low;
  if (kind == Kind::kUniform) {
    return low + static_cast<uint32_t>(Uniform01(random) * (high - low + 1));
  }
  const double middle = (std::log(low) + std::log(high)) / 2;
  const double sigma = (std::log(high) - std::log(low)) / 4;
  while (true) {
    const double drawn = std::round(std::exp(middle + sigma * Normal(random)));
    if (drawn >= low && drawn <= high) return static_cast<uint32_t>(drawn);
  }
}

Lengths ParseLengths(std::string_view text, std::string_view what) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    const uint32_t value = ReadLength(text, text, what);
    return {Lengths::Kind::kFixed, value, value};
  }
  const std::string_view kind = text.substr(0, colon), range = text.substr(colon + 1);
  const size_t dash = range.find('-');
  const bool known = kind == "uniform" || kind == "lognormal";
  const uint32_t low = ReadLength(known ? range.substr(0, dash) : "", text, what);
  const uint32_t high =
      ReadLength(dash == std::string_view::npos ? "" : range.substr(dash + 1), text, what);
  if (low > high) Fail(ErrorKind::kUsage, "{}: {} is more than {}", what, low, high);
  return {kind == "uniform" ? Lengths::Kind::kUniform : Lengths::Kind::kLogNormal, low, high};
}

std::vector<TraceItem> MakeTrace(const TraceSpec& spec) {
  std::mt19937_64 arrivals = Stream(spec.seed, 1), inputs = Stream(spec.seed, 2),
                  outputs = Stream(spec.seed, 3), prefixes = Stream(spec.seed, 4);
  std::vector<TraceItem> trace(spec.n);
  double now = 0;
  for (TraceItem& item : trace) {
    item.arrival = now;
    now -= std::log(1 - Uniform01(arrivals)) / spec.request_rate;
    item.input_tokens = spec.input.Draw(inputs);
    item.output_tokens = spec.output.Draw(outputs);
    const bool shared = Uniform01(prefixes) < spec.shared_fraction;
    const auto prefix = static_cast<uint32_t>(Uniform01(prefixes) * spec.n_prefixes);
    if (shared && spec.prefix_tokens > 0) {
      item.prefix = prefix;
      item.prefix_tokens = std::min(spec.prefix_tokens, item.input_tokens);
    }
  }
  return trace;
}

std::vector<TraceItem> ReadTrace(const std::string& path) {
  std::ifstream file(path);
  if (!file) Fail(ErrorKind::kNotFound, "{}: cannot be read", path);
  std::vector<TraceItem> trace;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    trace.push_back(
        WithContext(fmt::format("{}, line {}", path, number), [&line] { return ReadItem(line); }));
  }
  if (trace.empty()) Fail(ErrorKind::kBadFile, "{}: no requests in it", path);
  std::stable_sort(trace.begin(), trace.end(),
                   [](const TraceItem& a, const TraceItem& b) { return a.arrival < b.arrival; });
  return trace;
}

void WriteTrace(const std::string& path, const std::vector<TraceItem>& trace) {
  std::ofstream file(path);
  for (const TraceItem& item : trace) {
    OrderedJson line = {{"arrival", std::round(item.arrival * 1e6) / 1e6},
                        {"input_tokens", item.input_tokens},
                        {"output_tokens", item.output_tokens}};
    if (item.prefix) {
      line["prefix"] = *item.prefix;
      line["prefix_tokens"] = item.prefix_tokens;
    }
    file << line.dump() << '\n';
  }
  if (!file.flush()) Fail(ErrorKind::kIo, "{}: cannot be written", path);
}

}  // namespace hadal::load
