// What a load showed: the fields of `vllm bench serve`, by its names, and what it leaves out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "insight/load_stream.h"

namespace hadal::load {

enum class Outcome : uint8_t {
  kOk,       // a whole stream, with finish_reason and [DONE]
  kRefused,  // an answer other than 200
  kLost,     // no connection, or closed before an answer
  kCut,      // the stream ended before its end
  kHung,     // nothing came for longer than the limit
  kBroken,   // an error event, or a stream that is none
};
std::string_view Name(Outcome outcome);  // "ok", "refused", ...

// One request. Times are seconds after the start of the run.
struct RequestResult {
  double start = 0;   // when it was sent
  double answer = 0;  // when the head of the answer came; 0: never
  double end = 0;
  Outcome outcome = Outcome::kLost;
  int status = 0;       // 0: no answer
  std::string problem;  // for all but kOk
  std::vector<Chunk> chunks;
  uint32_t prompt_tokens = 0, output_tokens = 0;  // as the server counts, else our own estimate
  std::optional<uint32_t> cached_tokens;          // of the prompt, where the server tells
};

// Milliseconds. All zero when nothing was measured.
struct Summary {
  size_t n = 0;
  double mean = 0, median = 0, stddev = 0;
  std::vector<double> percentiles;  // as asked for
};

// Linear between the two nearest samples (numpy's default).
double Percentile(std::span<const double> sorted, double percent);
Summary Summarize(std::vector<double> samples, std::span<const double> percents);

struct LoadReport {
  std::map<Outcome, size_t> outcomes;
  std::map<std::string, size_t> errors;  // "503: message" -> how often
  size_t completed = 0, failed = 0;
  double duration = 0;  // seconds, from the first request sent to the last one ended
  uint64_t input_tokens = 0, output_tokens = 0;  // of completed requests
  std::optional<uint64_t> cached_tokens;
  double peak_output_throughput = 0;  // most tokens in a second of the clock
  size_t peak_concurrency = 0;        // most requests under way at once
  std::vector<double> percents;
  Summary ttft, tpot, e2el;
  Summary itl_chunk;     // between two pieces of text, as vLLM's ITL
  Summary itl_token;     // the same shared out among the tokens of a piece
  bool itl_token_exact;  // the server said how many tokens each piece has; else they are taken as
                         // equal within a request
  Summary refusal;       // from sending a request to the head of its refusal
};

LoadReport MakeReport(std::span<const RequestResult> results, std::vector<double> percents);

struct RunFacts {
  std::string url, endpoint, model, tokenizer, date;
  double request_rate = 0;       // infinity: all at once
  uint32_t max_concurrency = 0;  // 0: no limit
};

std::string ToText(const LoadReport& report, const RunFacts& facts);
// `results` adds an array per field over all requests; empty: none.
OrderedJson ToJson(const LoadReport& report, const RunFacts& facts,
                   std::span<const RequestResult> results);

}  // namespace hadal::load
