// A fixed set of compute threads that run one function at a time together with the caller.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/topology.h"
#include "base/work_counters.h"

namespace hadal {

// One owner thread calls Run/ParallelFor; the workers spin for a short while after each job and
// then park, so that an idle engine costs nothing. Workers are joined by the destructor.
//
// ParallelFor waits only for workers that took part: on a busy machine, where a worker may not get
// a CPU for milliseconds, the caller does the work itself and goes on.
class ThreadPool {
 public:
  // `n_threads` counts the caller: 1 starts no worker. Throws Error(kUsage) outside 1..256.
  // `pins`, empty or one entry per thread, says where workers run; the caller's thread is not
  // touched, as it belongs to others and whatever it starts would inherit its place. A place that
  // the system refuses is left out.
  explicit ThreadPool(int n_threads, const std::vector<CpuSet>& pins = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return n_threads_; }

  // Calls body(thread) once on every thread, thread 0 being the caller; returns when all are done.
  // `body` must not throw, nor call Run on the same pool.
  template <typename Body>
  void Run(Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    RunErased([](void* context, int thread) { (*static_cast<Plain*>(context))(thread); },
              const_cast<void*>(static_cast<const void*>(&body)), /*everyone=*/true);
  }

  // Calls body(index, thread) for every index in [0, n), handed out dynamically. Which thread gets
  // which index varies: a result may depend on the index alone.
  template <typename Body>
  void ParallelFor(int64_t n, Body&& body) {
    if (n <= 0) return;
    if (n_threads_ == 1 || n == 1) {
      for (int64_t i = 0; i < n; ++i) body(i, 0);
      return;
    }
    std::atomic<int64_t> next{0};
    auto take = [&](int thread) {
      for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < n;
           i = next.fetch_add(1, std::memory_order_relaxed)) {
        body(i, thread);
      }
    };
    RunErased([](void* context, int thread) { (*static_cast<decltype(take)*>(context))(thread); },
              &take, /*everyone=*/false);
  }

  // Jobs run so far: each is one barrier.
  uint64_t jobs() const { return jobs_; }
  // What the workers have done in jobs that have ended; for the owner thread.
  ThreadWork WorkersWork() const;

 private:
  using Trampoline = void (*)(void* context, int thread);
  void RunErased(Trampoline call, void* context, bool everyone);
  void WorkerLoop(int thread);
  bool Enter(uint32_t job);

  const int n_threads_;
  uint64_t jobs_ = 0;
  // Written by the owner while no worker is inside a job.
  Trampoline call_ = nullptr;
  void* context_ = nullptr;
  // What workers wait on: raised once for each job and once to stop.
  alignas(64) std::atomic<uint32_t> generation_{0};
  std::atomic<bool> stop_{false};
  // Job number (high half), closed (bit 31), workers that entered (low bits).
  alignas(64) std::atomic<uint64_t> entry_{kClosed};
  alignas(64) std::atomic<uint32_t> left_{0};  // workers that are done with the job

  static constexpr uint64_t kClosed = uint64_t{1} << 31;
  struct alignas(64) WorkSlot {
    ThreadWork work;
  };
  std::vector<WorkSlot> work_;  // [n_threads], each written by its worker inside a job
  std::vector<std::thread> workers_;
};

}  // namespace hadal
