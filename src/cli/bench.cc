#include "insight/bench.h"

#include <fmt/core.h>

#include <cstdio>

#include "base/error.h"
#include "base/json.h"
#include "cli/machine_report.h"
#include "cli/session.h"

namespace hadal::cli {
namespace {

std::vector<uint32_t> ReadCounts(const OptionValues& options, std::string_view key, int64_t least) {
  std::vector<uint32_t> counts;
  for (const int64_t value : ParseIntegers(options.Text(key), "--" + std::string(key))) {
    if (value < least || value > (1 << 24)) {
      Fail(ErrorKind::kUsage, "--{}: {} is outside {} to {}", key, value, least, 1 << 24);
    }
    counts.push_back(static_cast<uint32_t>(value));
  }
  return counts;
}

std::vector<BenchCase> ReadCases(const OptionValues& options) {
  std::vector<BenchCase> cases;
  const auto prompts = ReadCounts(options, "prompt", 0);
  const auto decodes = ReadCounts(options, "max-tokens", 0);
  for (const uint32_t depth : ReadCounts(options, "depth", 0)) {
    for (const uint32_t seqs : ReadCounts(options, "sequences", 1)) {
      for (const uint32_t n : prompts) {
        if (n > 0) cases.push_back({BenchKind::kPrefill, n, depth, seqs});
      }
      for (const uint32_t n : decodes) {
        if (n > 0) cases.push_back({BenchKind::kDecode, n, depth, seqs});
      }
    }
  }
  if (cases.empty()) Fail(ErrorKind::kUsage, "nothing to measure: give -p or -n");
  return cases;
}

// Whether most bytes are integer panels, whose products run at the int8 rate.
bool HasIntegerWeights(const Checkpoint& checkpoint, const OptionValues& options) {
  if (options.Text("dtype") != "auto") return false;
  if (options.Text("weights") != "as-stored") return true;
  uint64_t integer = 0, all = 0;
  for (const Checkpoint::Entry& entry : checkpoint.tensors()) {
    const DTypeInfo& info = Info(entry.view.dtype);
    all += entry.view.elements();
    if (info.block_elements > 1 || info.block_bytes == 0) integer += entry.view.elements();
  }
  return 2 * integer > all;
}

void PrintRow(const BenchResult& r, uint32_t layers, bool csv) {
  const double barriers = r.PerStep(r.work.barriers) / layers;
  const double calls = r.PerStep(r.work.kernel_calls);
  const double bytes = r.PerStep(r.work.bytes);
  if (csv) {
    fmt::print("{},{},{},{},{:.2f},{:.3f},{:.2f},{:.1f},{:.1f},{:.2f},{:.1f},{:.0f}\n",
               Name(r.what.kind), r.what.n, r.what.depth, r.what.seqs, r.tok_s, r.spread, r.gbs,
               r.gflops, r.percent_of_peak, barriers, calls, bytes);
  } else {
    fmt::print(
        "{:<8} {:>6} {:>7} {:>5} {:>10.2f} {:>6.1f}% {:>8.2f} {:>9.1f} {:>6.1f}% {:>9.2f} {:>8.0f} "
        "{:>9.2f}\n",
        Name(r.what.kind), r.what.n, r.what.depth, r.what.seqs, r.tok_s, 100 * r.spread, r.gbs,
        r.gflops, r.percent_of_peak, barriers, calls, bytes / 1e6);
  }
  std::fflush(stdout);
}

OrderedJson ToJson(const BenchReport& report, const Placement& placement, uint32_t layers) {
  OrderedJson json = {{"threads", placement.threads},
                      {"pinned", placement.pinned()},
                      {"layers", layers},
                      {"peaks",
                       {{"read_gbs", report.peaks.read_gbs},
                        {"bf16_gflops", report.peaks.bf16_gflops},
                        {"int8_gops", report.peaks.int8_gops}}},
                      {"results", OrderedJson::array()}};
  for (const BenchResult& r : report.results) {
    json["results"].push_back({{"kind", Name(r.what.kind)},
                               {"n", r.what.n},
                               {"depth", r.what.depth},
                               {"seqs", r.what.seqs},
                               {"tok_s", r.tok_s},
                               {"spread", r.spread},
                               {"gbs", r.gbs},
                               {"gflops", r.gflops},
                               {"percent_of_peak", r.percent_of_peak},
                               {"steps", r.steps},
                               {"barriers", r.work.barriers},
                               {"kernel_calls", r.work.kernel_calls},
                               {"bytes", r.work.bytes}});
  }
  json["logits_hash"] = fmt::format("{:016x}", report.logits_hash);
  return json;
}

}  // namespace

int Bench(const Arguments& arguments) {
  const OptionValues& options = arguments.options;
  const std::vector<BenchCase> cases = ReadCases(options);
  uint32_t most_seqs = 1;
  for (const BenchCase& what : cases) most_seqs = std::max(most_seqs, what.seqs);
  const bool json = options.Flag("json"), csv = options.Flag("csv");
  if (json && csv) Fail(ErrorKind::kUsage, "--json and --csv contradict each other");
  const uint64_t context = BenchContext(cases);
  if (options.Given("ctx") && static_cast<uint64_t>(options.Integer("ctx")) < context) {
    Fail(ErrorKind::kUsage, "--ctx: these measurements need a context of {} tokens, not {}",
         context, options.Integer("ctx"));
  }

  Checkpoint checkpoint = Checkpoint::Open(arguments.positional[0]);
  const uint32_t layers = checkpoint.spec().n_layers;
  const Placement placement = PlacementOf(options, ReadTopology());
  BenchOptions bench;
  bench.repeats = static_cast<uint32_t>(options.Integer("repeat"));
  bench.chunk = static_cast<uint32_t>(options.Integer("chunk"));
  bench.integer_weights = HasIntegerWeights(checkpoint, options);
  bench.peaks = MeasurePeaks(placement.threads, ChooseIsaLevel());
  const std::unique_ptr<Session> session = OpenSession(
      std::move(checkpoint), options, {.memory = {.max_sequences = most_seqs, .context = context}});

  if (csv) {
    fmt::print(
        "kind,n,depth,seqs,tok_s,spread,gbs,gflops,percent_of_peak,barriers_per_layer,"
        "kernel_calls_per_step,bytes_per_step\n");
  } else if (!json) {
    fmt::print("{}, {}, {}; peaks: read {:.1f} GB/s, bf16 {:.0f} GFLOP/s, int8 {:.0f} GOP/s\n",
               CpuModelName(), session->backend->Describe(), Describe(placement),
               bench.peaks.read_gbs, bench.peaks.bf16_gflops, bench.peaks.int8_gops);
    fmt::print("{:<8} {:>6} {:>7} {:>5} {:>10} {:>7} {:>8} {:>9} {:>7} {:>9} {:>8} {:>9}\n", "kind",
               "n", "depth", "seqs", "tokens/s", "spread", "GB/s", "GFLOP/s", "of peak", "barriers",
               "calls", "MB");
  }
  const InterruptScope interrupt;
  bench.before_step = [] {
    if (InterruptScope::interrupted()) Fail(ErrorKind::kCancelled, "stopped");
  };
  const BenchReport report =
      RunBench(session->model, session->kv, *session->pages, *session->runner, cases, bench,
               [&](const BenchResult& result) {
                 if (!json) PrintRow(result, layers, csv);
               });
  if (json) {
    fmt::print("{}\n", ToJson(report, placement, layers).dump(2));
  } else if (!csv) {
    fmt::print(
        "barriers: per layer and step; calls of kernels, MB of weights and KV: per step\n"
        "logits hash {:016x}\n",
        report.logits_hash);
  }
  return 0;
}

}  // namespace hadal::cli
