// Speed of prefill and decode at given lengths, depths and numbers of sequences.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "insight/machine_peaks.h"
#include "kv/kv_manager.h"
#include "model/model.h"
#include "runner/runner.h"

namespace hadal {

enum class BenchKind : uint8_t { kPrefill, kDecode };
std::string_view Name(BenchKind kind);  // "prefill", "decode"

struct BenchCase {
  BenchKind kind = BenchKind::kPrefill;
  uint32_t n = 0;      // prompt tokens, or decoded tokens of each sequence
  uint32_t depth = 0;  // tokens that lie in the KV cache before
  uint32_t seqs = 1;   // sequences side by side
};

struct BenchResult {
  BenchCase what;
  double tok_s = 0;   // median, all sequences together
  double spread = 0;  // (max - min) / median of the repeats
  double gbs = 0;     // bytes of packed weights and KV read per second
  double gflops = 0;  // multiplications and additions of the matrix products per second
  // Decode: gbs of the read bandwidth. Prefill: gflops of the int8 rate for integer weights, of the
  // float rate otherwise.
  double percent_of_peak = 0;
  // Counted, not timed: the steps of one run and all they did (OpCounters). The same on every run
  // and every machine, for the same number of threads.
  uint32_t steps = 0;
  OpCounters work;

  double PerStep(uint64_t count) const { return static_cast<double>(count) / steps; }
};

struct BenchReport {
  MachinePeaks peaks;
  std::vector<BenchResult> results;
  uint64_t logits_hash = 0;  // of the logits that the first case ends with: the same on every run
};

struct BenchOptions {
  uint32_t repeats = 5;
  uint32_t chunk = 512;  // most prompt tokens in one step
  bool integer_weights = false;
  MachinePeaks peaks;
  std::function<void()> before_step;  // may throw, to stop a long measurement; may be empty
};

// The most tokens one sequence needs for these cases.
uint64_t BenchContext(const std::vector<BenchCase>& cases);

// Context below `depth` is not computed: its KV is zeros, which take the same time to attend to.
// `progress` is called after each case and may throw.
BenchReport RunBench(Model& model, const KvCache& kv, KvManager& pages, Runner& runner,
                     const std::vector<BenchCase>& cases, const BenchOptions& options,
                     const std::function<void(const BenchResult&)>& progress);

}  // namespace hadal
