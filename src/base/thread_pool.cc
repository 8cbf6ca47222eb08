#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include "base/check.h"
#include "base/error.h"

namespace hadal {
namespace {

// About 50 us on current cores: longer than the gap between two ops of a step, far shorter than
// anything a person notices as an idle engine's load.
constexpr int kSpins = 4000;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// On failure the thread stays where the system puts it.
void Pin(std::thread& thread, const CpuSet& cpus) {
  if (cpus.empty()) return;
  const int most = cpus.back() + 1;
  const size_t bytes = CPU_ALLOC_SIZE(most);
  cpu_set_t* set = CPU_ALLOC(most);
  if (set == nullptr) return;
  CPU_ZERO_S(bytes, set);
  for (const int cpu : cpus) CPU_SET_S(cpu, bytes, set);
  static_cast<void>(pthread_setaffinity_np(thread.native_handle(), bytes, set));
  CPU_FREE(set);
}

}  // namespace

ThreadPool::ThreadPool(int n_threads, const std::vector<CpuSet>& pins) : n_threads_(n_threads) {
  if (n_threads < 1 || n_threads > 256) {
    Fail(ErrorKind::kUsage, "{} threads: choose between 1 and 256", n_threads);
  }
  HADAL_CHECK(pins.empty() || pins.size() == static_cast<size_t>(n_threads));
  work_.resize(static_cast<size_t>(n_threads));
  workers_.reserve(static_cast<size_t>(n_threads - 1));
  for (int thread = 1; thread < n_threads; ++thread) {
    workers_.emplace_back([this, thread] { WorkerLoop(thread); });
    if (!pins.empty()) Pin(workers_.back(), pins.at(static_cast<size_t>(thread)));
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunErased(Trampoline call, void* context, bool everyone) {
  ++jobs_;
  if (n_threads_ == 1) {
    call(context, 0);
    return;
  }
  call_ = call;
  context_ = context;
  left_.store(0, std::memory_order_relaxed);
  const uint32_t job = generation_.load(std::memory_order_relaxed) + 1;
  entry_.store(uint64_t{job} << 32, std::memory_order_release);
  generation_.store(job, std::memory_order_release);
  generation_.notify_all();
  call(context, 0);

  const auto workers = static_cast<uint32_t>(n_threads_ - 1);
  const auto entered = [this] {
    return static_cast<uint32_t>(entry_.load(std::memory_order_relaxed) & (kClosed - 1));
  };
  const auto wait_until = [](auto done) {
    for (int spins = 0; !done(); ++spins) {
      if (spins < kSpins) {
        Pause();
      } else {
        sched_yield();  // more threads than CPUs: let the worker we wait for run
      }
    }
  };
  if (everyone) wait_until([&] { return entered() == workers; });
  entry_.fetch_or(kClosed, std::memory_order_acq_rel);
  const uint32_t inside = entered();
  wait_until([&] { return left_.load(std::memory_order_acquire) == inside; });
}

// Takes part in `job`, unless its owner has gone on.
bool ThreadPool::Enter(uint32_t job) {
  uint64_t entry = entry_.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(entry >> 32) == job && (entry & kClosed) == 0) {
    if (entry_.compare_exchange_weak(entry, entry + 1, std::memory_order_acq_rel)) return true;
  }
  return false;
}

ThreadWork ThreadPool::WorkersWork() const {
  ThreadWork sum;
  for (const WorkSlot& slot : work_) sum += slot.work;
  return sum;
}

void ThreadPool::WorkerLoop(int thread) {
  for (uint32_t seen = 0;;) {
    for (int spins = 0; generation_.load(std::memory_order_acquire) == seen; ++spins) {
      if (spins < kSpins) {
        Pause();
      } else {
        generation_.wait(seen, std::memory_order_acquire);
      }
    }
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (!Enter(seen)) continue;
    call_(context_, thread);
    work_[static_cast<size_t>(thread)].work = thread_work;
    left_.fetch_add(1, std::memory_order_release);
  }
}

}  // namespace hadal
