#include "insight/bench.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "base/hash.h"
#include "spec/step_work.h"

namespace hadal {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kToken = 1;

// The sequences of one case, driven step by step without a scheduler.
class Driver {
 public:
  Driver(KvManager& pages, Runner& runner, const BenchCase& what, const BenchOptions& options)
      : pages_(pages), runner_(runner), before_step_(options.before_step) {
    for (uint32_t s = 0; s < what.seqs; ++s) {
      Sequence& sequence = *sequences_.emplace_back(std::make_unique<Sequence>());
      sequence.request.prompt.assign(what.depth + what.n + 1, kToken);
      sequence.request.sampling.temperature = 0;
      sequence.request.sampling.seed = 0;
      sequence.pages = pages_.Open(what.depth + what.n + 1);
      for (uint32_t left = what.depth; left > 0;) {
        const uint32_t now = std::min(left, options.chunk);
        pages_.Append(sequence.pages, now);
        left -= now;
      }
      sequence.n_computed = what.depth;
    }
  }
  ~Driver() {
    for (auto& sequence : sequences_) pages_.Close(sequence->pages);
    pages_.ForgetOps();
  }

  // One step that takes the next `n` tokens of every sequence.
  void Step(uint32_t n, bool samples) {
    if (before_step_) before_step_();
    plan_.Clear();
    for (auto& sequence : sequences_) {
      pages_.Append(sequence->pages, n);
      plan_.runs.push_back({sequence.get(), sequence->n_computed, n, samples ? 1u : 0u, samples});
      plan_.n_tokens += n;
      plan_.n_logits += samples;
    }
    plan_.page_ops.assign(pages_.ops().begin(), pages_.ops().end());
    pages_.ForgetOps();
    results_.resize(plan_.runs.size());
    for (RunResult& result : results_) result.Clear();
    runner_.Run(plan_, results_);
    for (auto& sequence : sequences_) sequence->n_computed += n;
    for (const RunResult& result : results_) {
      if (result.error) throw *result.error;
    }
  }

 private:
  KvManager& pages_;
  Runner& runner_;
  const std::function<void()>& before_step_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  StepPlan plan_;
  std::vector<RunResult> results_;
};

struct OneRun {
  double seconds = 0;
  uint32_t steps = 0;
  OpCounters work;
};

OneRun RunOnce(const Backend& backend, KvManager& pages, Runner& runner, const BenchCase& what,
               const BenchOptions& options) {
  Driver driver(pages, runner, what, options);
  const bool decode = what.kind == BenchKind::kDecode;
  const uint32_t per_step = decode ? 1 : std::max(1u, options.chunk / what.seqs);
  if (decode) driver.Step(1, true);  // zeroes the pages of the depth, fills the caches
  OneRun run;
  const OpCounters before = backend.counters();
  const Clock::time_point start = Clock::now();
  for (uint32_t done = 0; done < what.n; ++run.steps) {
    const uint32_t now = std::min(per_step, what.n - done);
    done += now;
    driver.Step(now, decode || done == what.n);
  }
  run.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  run.work = backend.counters() - before;
  return run;
}

BenchResult Judge(const Model& model, const KvLayout& layout, const BenchCase& what,
                  std::vector<double> seconds, const BenchOptions& options) {
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const double tokens = static_cast<double>(what.n) * what.seqs;
  const double context = what.depth + what.n / 2.0;  // mean over the tokens measured
  const TokenWork work = CountTokenWork(model.spec());
  const double heads = what.kind == BenchKind::kDecode ? tokens : what.seqs;
  const double flops = tokens * (static_cast<double>(work.layers) +
                                 static_cast<double>(work.per_context) * context) +
                       heads * static_cast<double>(work.head);
  const double steps =
      what.kind == BenchKind::kDecode ? what.n : (tokens + options.chunk - 1) / options.chunk;
  const double bytes = steps * static_cast<double>(model.bytes().step_weights) +
                       tokens * context * static_cast<double>(layout.bytes_per_token());
  BenchResult result;
  result.what = what;
  result.tok_s = tokens / median;
  result.spread = (seconds.back() - seconds.front()) / median;
  result.gbs = bytes / median / 1e9;
  result.gflops = flops / median / 1e9;
  const double peak = options.integer_weights ? options.peaks.int8_gops : options.peaks.bf16_gflops;
  result.percent_of_peak = what.kind == BenchKind::kDecode
                               ? 100 * result.gbs / options.peaks.read_gbs
                               : 100 * result.gflops / peak;
  return result;
}

}  // namespace

std::string_view Name(BenchKind kind) {
  return kind == BenchKind::kPrefill ? "prefill" : "decode";
}

uint64_t BenchContext(const std::vector<BenchCase>& cases) {
  uint64_t context = 0;
  for (const BenchCase& what : cases) {
    context = std::max<uint64_t>(context, uint64_t{what.depth} + what.n + 1);
  }
  return context;
}

BenchReport RunBench(Model& model, const KvCache& kv, KvManager& pages, Runner& runner,
                     const std::vector<BenchCase>& cases, const BenchOptions& options,
                     const std::function<void(const BenchResult&)>& progress) {
  BenchReport report;
  report.peaks = options.peaks;
  std::vector<float> logits;
  runner.Observe(nullptr, [&logits](const PlannedRun&, Tensor rows) {
    logits.assign(rows.row(rows.rows - 1), rows.row(rows.rows - 1) + rows.cols);
  });
  for (const BenchCase& what : cases) {
    std::vector<double> seconds;
    const Backend& backend = model.backend();
    const OneRun warm_up = RunOnce(backend, pages, runner, what, options);
    if (report.results.empty()) report.logits_hash = Hash64(std::as_bytes(std::span(logits)));
    for (uint32_t r = 0; r < options.repeats; ++r) {
      seconds.push_back(RunOnce(backend, pages, runner, what, options).seconds);
    }
    report.results.push_back(Judge(model, kv.layout, what, std::move(seconds), options));
    report.results.back().steps = warm_up.steps;
    report.results.back().work = warm_up.work;
    if (progress) progress(report.results.back());
  }
  return report;
}

}  // namespace hadal
