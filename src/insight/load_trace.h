// What a load is made of: when each request comes, how much it asks and how much it wants back.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace hadal::load {

// Whole numbers from `low` to `high`, both included.
struct Lengths {
  enum class Kind : uint8_t { kFixed, kUniform, kLogNormal };
  Kind kind = Kind::kFixed;
  uint32_t low = 1, high = 1;

  // Log-normal: its median is the geometric mean of the bounds, which lie two standard deviations
  // away; what falls outside is drawn again.
  uint32_t Draw(std::mt19937_64& random) const;
};

// "256", "uniform:32-1024", "lognormal:32-1024". Throws Error(kUsage) naming `what`.
Lengths ParseLengths(std::string_view text, std::string_view what);

struct TraceItem {
  double arrival = 0;  // seconds after the start
  uint32_t input_tokens = 1;
  uint32_t output_tokens = 1;
  std::optional<uint32_t> prefix;  // requests with the same number begin with the same tokens
  uint32_t prefix_tokens = 0;      // how many of them; part of input_tokens

  bool operator==(const TraceItem&) const = default;
};

struct TraceSpec {
  uint32_t n = 100;
  double request_rate = std::numeric_limits<double>::infinity();  // Poisson; infinity: all at once
  Lengths input, output;
  uint32_t prefix_tokens = 0;  // 0: nothing is shared
  double shared_fraction = 0;  // of the requests
  uint32_t n_prefixes = 1;     // different ones
  uint64_t seed = 0;
};

// In order of arrival; the same on every machine. Arrivals, lengths and prefixes are drawn apart,
// so that changing one leaves the others.
std::vector<TraceItem> MakeTrace(const TraceSpec& spec);

// JSON lines {"arrival", "input_tokens", "output_tokens", "prefix", "prefix_tokens"}, the last two
// absent where nothing is shared. Read throws Error(kNotFound) or Error(kBadFile) naming the line,
// Write Error(kIo). What is read is put in order of arrival.
std::vector<TraceItem> ReadTrace(const std::string& path);
void WriteTrace(const std::string& path, const std::vector<TraceItem>& trace);

// Uniform in [0, 1), the same on every machine.
double Uniform01(std::mt19937_64& random);

}  // namespace hadal::load
