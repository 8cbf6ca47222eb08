// The one generation loop: requests go in from any thread, events come out to their callers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/queue.h"
#include "engine/admission_gate.h"
#include "engine/engine_metrics.h"
#include "engine/engine_stats.h"
#include "engine/request.h"
#include "engine/request_handle.h"
#include "metrics/metrics.h"
#include "runner/runner.h"
#include "sched/scheduler.h"

namespace hadal {

// What sustained overload may take from requests; 0: nothing. See Breaker::degradation.
struct DegradationOptions {
  uint32_t max_choices = 0;
  uint32_t max_tokens = 0;
};

struct EngineOptions {
  SchedulerLimits limits;  // kv_depends_on_length and swap_bytes are the executor's to say
  uint32_t vocab = 0;
  uint32_t max_open_requests = 1024;  // more are refused, Error(kResource)
  uint32_t max_queue = 0;             // requests waiting for their first step; 0: no limit
  BreakerLimits breaker;
  DegradationOptions degradation;
  Metrics* metrics = nullptr;  // what the engine thread observes; must outlive the engine
};

class Engine {
 public:
  // Starts the engine thread. `executor` and `kv` are used by that thread alone from now on and
  // must outlive the engine.
  Engine(const EngineOptions& options, KvManager& kv, StepExecutor& executor);
  // Waits for the step in progress. REQUIRES: no handle is left.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Checks everything that can be checked and queues the request. Throws Error(kInvalid) (bad
  // parameter, token outside the vocabulary, does not fit: with the numbers, also as
  // ErrorDetails::context_overflow) or Error(kResource) (too many requests, predicted wait too
  // long: with retry_after_seconds). Thread-safe.
  RequestHandle Submit(Request request);

  // `n` >= 1 choices for one prompt: choice i is bit for bit what Submit gives with choice_index i.
  // The prompt is computed once and its KV shared. All are accepted or none; fewer than n come back
  // when overload took some (DegradationOptions).
  std::vector<RequestHandle> SubmitChoices(Request request, uint32_t n);

  // The most tokens, prompt and generated, of one request. Thread-safe.
  uint32_t capacity() const { return scheduler_.capacity(); }

  // The most choices that may be open at once, of all requests. Thread-safe.
  uint32_t max_open_requests() const { return options_.max_open_requests; }

  // Ends every open request, and every later one, with `reason` as its error. Thread-safe.
  void EndAll(Error reason);

  EngineStats stats() const;  // thread-safe

 private:
  friend class RequestHandle;
  struct Add {
    std::vector<SequenceRequest> choices;
    std::vector<EventChannel*> channels;  // one each
    TimePoint submitted;
  };
  struct Cancel {
    uint64_t id;
  };
  // The caller is gone; its channel dies on the engine thread, which may be writing to it.
  struct Abandon {
    uint64_t id;
    std::unique_ptr<EventChannel> channel;
  };
  struct Ending {
    Error reason;
  };
  using Command = std::variant<Add, Cancel, Abandon, Ending>;

  void Loop();
  std::optional<Command> WaitForCommand();
  void Handle(Command command);
  void Take(Add add);
  void CancelSequence(uint64_t id, std::optional<Error> error = std::nullopt);
  void CancelAll();
  void Step();
  void Run(const StepPlan& plan);
  void Deliver();
  void PublishStats();
  SequenceRequest Checked(Request request) const;
  uint32_t Degrade(SequenceRequest& request, uint32_t n) const;
  RequestHandle MakeHandle(const SequenceRequest& sequence, std::function<void()> wake);
  void Reserve(uint32_t n);

  const EngineOptions options_;
  StepExecutor& executor_;
  KvManager& kv_;
  Scheduler scheduler_;
  AdmissionGate gate_;

  std::atomic<uint64_t> next_id_{1};
  std::atomic<uint32_t> open_handles_{0};
  Queue<Command> commands_;
  mutable std::mutex stats_mutex_;  // guards stats_
  EngineStats stats_;

  // The engine thread's own.
  std::unordered_map<uint64_t, EventChannel*> channels_;  // of unfinished requests
  EngineMetrics metrics_;
  std::vector<SequenceEvent> events_;
  std::vector<EventChannel*> woken_;  // scratch
  std::optional<Error> ending_;       // why no request goes on
  std::vector<RunResult> results_;

  std::thread thread_;  // last: starts when all else is there
};

}  // namespace hadal
