#include "cli/serving_options.h"

#include <algorithm>

namespace hadal::cli {
namespace {

PagePromise PromiseOf(const std::string& name) {
  if (name == "prompt") return PagePromise::kPrompt;
  return name == "maximum" ? PagePromise::kMaximum : PagePromise::kExpected;
}

PreemptionMode PreemptionOf(const std::string& name) {
  if (name == "swap") return PreemptionMode::kSwap;
  return name == "recompute" ? PreemptionMode::kRecompute : PreemptionMode::kAuto;
}

}  // namespace

EngineOptions ServingOptions(const OptionValues& options, Metrics* metrics) {
  const auto integer = [&](const char* key) { return static_cast<uint32_t>(options.Integer(key)); };
  EngineOptions engine;
  engine.max_queue = integer("max-queue");
  engine.max_open_requests =
      integer("max-num-seqs") + (engine.max_queue == 0 ? 1u << 20 : engine.max_queue);
  engine.degradation = {integer("overload-max-n"), integer("overload-max-tokens")};
  engine.metrics = metrics;
  SchedulerLimits& limits = engine.limits;
  limits.itl_target = options.Number("itl-target-ms") / 1000;
  limits.ttft_target = options.Number("ttft-target-ms") / 1000;
  engine.breaker.max_wait = options.Number("max-queue-seconds");
  if (limits.ttft_target > 0 && engine.breaker.max_wait > 0) {
    engine.breaker.max_wait = std::min(engine.breaker.max_wait, limits.ttft_target);
  }
  limits.promise = PromiseOf(options.Text("admission"));
  limits.preemption = PreemptionOf(options.Text("preemption"));
  limits.reuse_prefixes = !options.Flag("no-prefix-cache");
  if (options.Text("batching") == "static") limits.batching = Batching::kStatic;
  limits.static_batch = integer("batch");
  return engine;
}

std::unique_ptr<SwapSpace> OpenSwapSpace(const OptionValues& options, std::string& problem) {
  const auto bytes = static_cast<uint64_t>(options.Integer("swap-space"));
  if (bytes == 0) return nullptr;
  try {
    return std::make_unique<SwapSpace>(options.Text("swap-path"), bytes);
  } catch (const Error& error) {
    problem = error.message() + "; preempted sequences will be computed again";
    return nullptr;
  }
}

}  // namespace hadal::cli
