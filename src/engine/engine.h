// The one generation loop: requests go in from any thread, events come out to their callers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/queue.h"
#include "engine/request.h"
#include "runner/runner.h"
#include "sched/scheduler.h"

namespace hadal {

class Engine;

// A submitted request, seen by its caller. Move-only; destroying it cancels the request. Used by
// one thread at a time. The engine must outlive it.
class RequestHandle {
 public:
  RequestHandle() = default;
  ~RequestHandle();
  RequestHandle(RequestHandle&& other) noexcept;
  RequestHandle& operator=(RequestHandle&& other) noexcept;

  uint64_t id() const { return id_; }
  uint64_t seed() const { return seed_; }  // given or drawn
  uint32_t max_tokens() const { return max_tokens_; }

  // The next event, waiting for it; FinishedEvent is the last, nothing follows it.
  std::optional<RequestEvent> Next();
  // Empty also when `timeout` passes; ended() tells the two apart.
  std::optional<RequestEvent> NextFor(std::chrono::nanoseconds timeout);
  bool ended() const { return ended_; }

  // Asks the engine to stop; a FinishedEvent (kCancelled, unless it was done) still follows.
  void Cancel();

 private:
  friend class Engine;
  struct Channel {
    explicit Channel(size_t capacity) : events(capacity) {}
    Queue<RequestEvent> events;
  };
  std::optional<RequestEvent> Note(std::optional<RequestEvent> event);

  Engine* engine_ = nullptr;
  std::unique_ptr<Channel> channel_;
  uint64_t id_ = 0;
  uint64_t seed_ = 0;
  uint32_t max_tokens_ = 0;
  bool ended_ = false;
};

struct EngineOptions {
  SchedulerLimits limits;  // kv_depends_on_length is the executor's to say
  uint32_t vocab = 0;
  uint32_t max_open_requests = 1024;  // more are refused, Error(kResource)
};

// A snapshot taken after each step.
struct EngineStats {
  uint64_t steps = 0;
  uint64_t prompt_tokens = 0;  // computed, not cached ones
  uint64_t generated_tokens = 0;
  uint64_t n_waiting = 0, n_running = 0;
  KvUsage kv;
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
  // parameter, token outside the vocabulary, does not fit: with the numbers) or Error(kResource)
  // (too many open requests). Thread-safe.
  RequestHandle Submit(Request request);

  // The most tokens, prompt and generated, of one request. Thread-safe.
  uint32_t capacity() const { return scheduler_.capacity(); }

  EngineStats stats() const;  // thread-safe

 private:
  friend class RequestHandle;
  struct Add {
    SequenceRequest request;
    RequestHandle::Channel* channel;
    TimePoint submitted;
  };
  struct Cancel {
    uint64_t id;
  };
  // The caller is gone; its channel dies on the engine thread, which may be writing to it.
  struct Abandon {
    uint64_t id;
    std::unique_ptr<RequestHandle::Channel> channel;
  };
  using Command = std::variant<Add, Cancel, Abandon>;

  void Loop();
  void Handle(Command command);
  void CancelSequence(uint64_t id);
  void Step();
  void Deliver();
  void PublishStats(const StepPlan* plan);
  SequenceRequest Checked(Request request) const;

  const EngineOptions options_;
  StepExecutor& executor_;
  KvManager& kv_;
  Scheduler scheduler_;

  std::atomic<uint64_t> next_id_{1};
  std::atomic<uint32_t> open_handles_{0};
  Queue<Command> commands_;
  mutable std::mutex stats_mutex_;  // guards stats_
  EngineStats stats_;

  // The engine thread's own.
  std::unordered_map<uint64_t, RequestHandle::Channel*> channels_;  // of unfinished requests
  std::vector<SequenceEvent> events_;
  std::vector<RunResult> results_;

  std::thread thread_;  // last: starts when all else is there
};

}  // namespace hadal
