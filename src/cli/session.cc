#include "cli/session.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <iterator>

#include "base/check.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "cli/output.h"
#include "memory/memory_plan.h"

namespace hadal::cli {
namespace {

// Written by a signal handler, so it cannot be owned by anything.
std::atomic<bool> g_interrupted{false};

void OnInterrupt(int) {
  g_interrupted.store(true, std::memory_order_relaxed);
}

WeightPolicy ChoosePolicy(const OptionValues& options) {
  const std::string dtype = options.Text("dtype");
  const std::string weights = options.Text("weights");
  if (dtype != "auto" && weights != "as-stored") {
    Fail(ErrorKind::kUsage, "--dtype {} and --weights {} contradict each other", dtype, weights);
  }
  if (dtype == "f32") return WeightPolicy::kF32;
  if (dtype == "bf16") return WeightPolicy::kBf16;
  if (weights == "q8") return WeightPolicy::kQ8;
  if (weights == "q4") return WeightPolicy::kQ4;
  return WeightPolicy::kAsStored;
}

DType ChooseKvType(const OptionValues& options) {
  const std::string name = options.Text("kv-dtype");
  const auto* type = std::find_if(std::begin(kKvTypes), std::end(kKvTypes),
                                  [&name](const KvType& t) { return t.name == name; });
  HADAL_CHECK(type != std::end(kKvTypes));  // the option table lists the same names
  return type->dtype;
}

std::unique_ptr<Backend> MakeBackend(const OptionValues& options) {
  if (options.Text("backend") == "ref") return MakeRefBackend();
  const int threads = ThreadCount(options);
  if (const int cpus = DefaultThreadCount(); threads > cpus) {
    fmt::print(stderr, "hadal: {} threads on {} CPUs get in each other's way\n", threads, cpus);
  }
  return MakeCpuBackend(threads);
}

void ShowLoading(ProgressLine& progress, uint64_t done, uint64_t total) {
  if (InterruptScope::interrupted()) Fail(ErrorKind::kCancelled, "stopped while loading");
  const double part = static_cast<double>(done) / static_cast<double>(std::max<uint64_t>(total, 1));
  progress.Show(fmt::format("loading {:3.0f} % of {:.1f} GiB", 100 * part,
                            static_cast<double>(total) / (1 << 30)));
}

StepLimits ChooseLimits(const OptionValues& options, const SessionNeeds& needs) {
  StepLimits limits;
  limits.max_sequences = needs.max_sequences;
  limits.max_tokens =
      std::max(static_cast<uint32_t>(options.Integer("chunk")), needs.max_sequences);
  limits.max_logit_rows = std::max(needs.max_logit_rows, needs.max_sequences);
  limits.max_context = needs.context;
  return limits;
}

// Context and pages that fit beside everything else, before anything is loaded.
KvChoice ChooseContext(const Checkpoint& checkpoint, const Backend& backend, WeightPolicy policy,
                       const KvLayout& layout, const OptionValues& options,
                       const StepLimits& limits) {
  const ModelSpec& spec = checkpoint.spec();
  const MemoryPlan plan =
      PlanFixedMemory(spec, limits, backend, PlanWeightBytes(checkpoint, backend, policy),
                      Model::ActivationBytes(spec, limits));
  KvWish wish;
  if (options.Given("ctx")) {
    wish.context = static_cast<uint64_t>(options.Integer("ctx"));
  } else if (limits.max_context != 0) {
    wish.context = limits.max_context;
  }
  wish.model_context = spec.max_context;
  wish.max_sequences = limits.max_sequences;
  return ChooseKv(layout, plan, ReadAvailableMemory(), wish);
}

}  // namespace

InterruptScope::InterruptScope() {
  Clear();
  // Without SA_RESTART, so that a line editor waiting for a key comes back.
  struct sigaction action {};
  action.sa_handler = OnInterrupt;
  sigaction(SIGINT, &action, &previous_);
}
InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &previous_, nullptr);
}
bool InterruptScope::interrupted() {
  return g_interrupted.load(std::memory_order_relaxed);
}
void InterruptScope::Clear() {
  g_interrupted.store(false, std::memory_order_relaxed);
}

int ThreadCount(const OptionValues& options) {
  return options.Given("threads") ? static_cast<int>(options.Integer("threads"))
                                  : DefaultThreadCount();
}

std::unique_ptr<Session> OpenSession(Checkpoint checkpoint, const OptionValues& options,
                                     const SessionNeeds& needs) {
  const InterruptScope interrupt;
  const WeightPolicy policy = ChoosePolicy(options);
  const KvLayout layout = MakeKvLayout(checkpoint.spec(), ChooseKvType(options),
                                       static_cast<uint32_t>(options.Integer("block-size")));
  std::unique_ptr<Backend> backend = MakeBackend(options);
  StepLimits limits = ChooseLimits(options, needs);
  const KvChoice kv_choice = ChooseContext(checkpoint, *backend, policy, layout, options, limits);
  limits.max_context = kv_choice.context;

  ProgressLine progress;
  Model model = Model::Load(checkpoint, *backend, {policy, [&](uint64_t done, uint64_t total) {
                                                     ShowLoading(progress, done, total);
                                                   }});
  // Asked after the last report of progress.
  if (InterruptScope::interrupted()) Fail(ErrorKind::kCancelled, "stopped while loading");
  model.Reserve(limits);
  KvCache kv = AllocateKvCache(*backend, layout, kv_choice.pages);
  std::unique_ptr<Session> session(new Session{std::move(checkpoint), std::move(backend),
                                               std::move(model), limits, std::move(kv), nullptr,
                                               nullptr});
  session->pages = std::make_unique<KvManager>(
      layout, std::vector<uint32_t>(layout.groups.size(), kv_choice.pages), limits.max_tokens);
  session->runner = std::make_unique<Runner>(session->model, session->kv, limits);
  return session;
}

std::unique_ptr<Engine> Session::StartEngine() {
  EngineOptions options;
  options.limits = {limits.max_tokens, limits.max_sequences, limits.max_logit_rows,
                    limits.max_context};
  options.vocab = spec().vocab;
  return std::make_unique<Engine>(options, *pages, *runner);
}

}  // namespace hadal::cli
