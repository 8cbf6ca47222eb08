// A model opened for use: everything between a path and an engine that takes requests.
#pragma once

#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/placement.h"
#include "cli/command.h"
#include "cli/memory_options.h"
#include "engine/engine.h"
#include "formats/checkpoint.h"
#include "kv/swap_space.h"
#include "model/model.h"
#include "runner/runner.h"
#include "tokenizer/tokenizer.h"

namespace hadal::cli {

// What a command wants beyond its options.
struct SessionNeeds {
  MemoryNeeds memory;
  // Where preempted sequences go; null: nowhere.
  std::unique_ptr<SwapSpace> swap;
  // Called with the part that is loaded, from 0 to 1; what it throws ends loading.
  std::function<void(double)> progress;
  // What is odd, but ends nothing; null: to stderr.
  std::function<void(const std::string&)> warn;
};

// Members die in reverse order: the engine's thread first, the checkpoint last.
struct Session {
  Checkpoint checkpoint;
  std::unique_ptr<Backend> backend;
  Model model;
  FittedMemory memory;  // as planned before loading
  KvCache kv;
  std::unique_ptr<KvManager> pages;
  std::unique_ptr<SwapSpace> swap;
  std::unique_ptr<Runner> runner;
  SpeculationOptions speculation;

  const ModelSpec& spec() const { return checkpoint.spec(); }
  const StepLimits& limits() const { return memory.choice.limits; }
  // Starts the engine thread over runner and pages, which belong to it from then on. The step's
  // limits, speculation and the vocabulary in `options` are set here.
  std::unique_ptr<Engine> StartEngine(EngineOptions options = {});
};

// --threads, or one per core at hand.
int ThreadCount(const OptionValues& options);
// The same threads, and with --pin where they run on this machine.
Placement PlacementOf(const OptionValues& options, const Topology& topology);

// --backend with --threads and --pin.
std::unique_ptr<Backend> MakeBackend(const OptionValues& options);

// Where packed weights are kept, after XDG_CACHE_HOME and HOME; empty without either.
std::filesystem::path PackCacheFolder();

// Plans and loads. Shows a progress line on stderr when loading takes more than three seconds.
// Throws Error; kCancelled on Ctrl-C.
std::unique_ptr<Session> OpenSession(Checkpoint checkpoint, const OptionValues& options,
                                     SessionNeeds needs);

// Ctrl-C while one of these lives sets a flag instead of ending the program.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  static bool interrupted();
  static void Clear();

 private:
  struct sigaction previous_ {};
};

}  // namespace hadal::cli
