#include "cli/session.h"

#include <fmt/core.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <iterator>

#include "base/check.h"
#include "base/error.h"
#include "cli/memory_options.h"
#include "cli/output.h"

namespace hadal::cli {
namespace {

// Written by a signal handler, so it cannot be owned by anything.
std::atomic<bool> g_interrupted{false};

void OnInterrupt(int) {
  g_interrupted.store(true, std::memory_order_relaxed);
}

double Part(uint64_t done, uint64_t total) {
  return static_cast<double>(done) / static_cast<double>(std::max<uint64_t>(total, 1));
}

void ShowLoading(ProgressLine& progress, uint64_t done, uint64_t total) {
  if (InterruptScope::interrupted()) Fail(ErrorKind::kCancelled, "stopped while loading");
  progress.Show(fmt::format("loading {:3.0f} % of {:.1f} GiB", 100 * Part(done, total),
                            static_cast<double>(total) / (1 << 30)));
}

PackCacheOptions PackCacheOf(const OptionValues& options,
                             std::function<void(const std::string&)> warn) {
  PackCacheOptions cache;
  if (!options.Flag("no-pack-cache")) cache.folder = PackCacheFolder();
  cache.max_bytes = static_cast<uint64_t>(options.Integer("pack-cache-size"));
  cache.warn = std::move(warn);
  if (!cache.warn) {
    cache.warn = [](const std::string& text) {
      fmt::print(stderr, "hadal: {}\n", Printable(text));
    };
  }
  return cache;
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
                                  : DefaultThreads(ReadTopology());
}

Placement PlacementOf(const OptionValues& options, const Topology& topology) {
  return ChoosePlacement(topology, options.Given("threads") ? ThreadCount(options) : 0,
                         ParsePinMode(options.Text("pin")));
}

std::unique_ptr<Backend> MakeBackend(const OptionValues& options) {
  if (options.Text("backend") == "ref") return MakeRefBackend();
  const Topology topology = ReadTopology();
  const Placement placement = PlacementOf(options, topology);
  if (const int most = MostThreads(topology); placement.threads > most) {
    fmt::print(stderr, "hadal: {} threads on {} CPUs get in each other's way\n", placement.threads,
               most);
  }
  return MakeCpuBackend(placement);
}

std::filesystem::path PackCacheFolder() {
  // The specification has relative paths ignored.
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::filesystem::path(cache) / "hadal/packed";
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') return {};
  return std::filesystem::path(home) / ".cache/hadal/packed";
}

std::unique_ptr<Session> OpenSession(Checkpoint checkpoint, const OptionValues& options,
                                     SessionNeeds needs) {
  const InterruptScope interrupt;
  std::unique_ptr<Backend> backend = MakeBackend(options);
  MemoryWish wish = WishOf(checkpoint.spec(), options, needs.memory);
  wish.choice.swap_bytes = needs.swap ? needs.swap->bytes().size() : 0;
  FittedMemory memory =
      FitMemory(ModelOf(checkpoint, *backend, options, needs.memory), wish, BudgetOf(options));

  ProgressLine progress;
  const auto show = [&](uint64_t done, uint64_t total) {
    ShowLoading(progress, done, total);
    if (needs.progress) needs.progress(Part(done, total));
  };
  Model model = Model::Load(checkpoint, *backend,
                            {.policy = memory.choice.weights,
                             .progress = show,
                             .cache = PackCacheOf(options, std::move(needs.warn))});
  // Asked after the last report of progress.
  if (InterruptScope::interrupted()) Fail(ErrorKind::kCancelled, "stopped while loading");
  malloc_trim(0);  // what loading used for a while
  const StepLimits& limits = memory.choice.limits;
  model.Reserve(limits);
  KvCache kv = AllocateKvCache(*backend, memory.layout, memory.pages);
  auto pages = std::make_unique<KvManager>(memory.layout, memory.pages, limits.max_tokens);
  std::unique_ptr<Session> session(new Session{std::move(checkpoint), std::move(backend),
                                               std::move(model), std::move(memory), std::move(kv),
                                               std::move(pages), std::move(needs.swap), nullptr});
  session->speculation = ChooseSpeculation(options);
  session->runner =
      std::make_unique<Runner>(session->model, session->kv, session->limits(), session->swap.get());
  return session;
}

std::unique_ptr<Engine> Session::StartEngine(EngineOptions options) {
  options.limits.max_tokens = limits().max_tokens;
  options.limits.max_sequences = limits().max_sequences;
  options.limits.max_logit_rows = limits().max_logit_rows;
  options.limits.max_context = limits().max_context;
  options.limits.speculation = speculation.speculation;
  options.limits.max_draft = speculation.max_draft;
  options.vocab = spec().vocab;
  return std::make_unique<Engine>(options, *pages, *runner);
}

}  // namespace hadal::cli
