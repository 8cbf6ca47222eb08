#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

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

// CPU quota of the cgroup (v2) in whole CPUs, rounded up; 0 when there is none.
int CgroupCpus() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  try {
    return static_cast<int>(std::ceil(std::stod(quota) / period));
  } catch (const std::exception&) {
    return 0;
  }
}

}  // namespace

ThreadPool::ThreadPool(int n_threads) : n_threads_(n_threads) {
  if (n_threads < 1 || n_threads > 256) {
    Fail(ErrorKind::kUsage, "{} threads: choose between 1 and 256", n_threads);
  }
  workers_.reserve(static_cast<size_t>(n_threads - 1));
  for (int thread = 1; thread < n_threads; ++thread) {
    workers_.emplace_back([this, thread] { WorkerLoop(thread); });
  }
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunErased(Trampoline call, void* context) {
  ++jobs_;
  if (n_threads_ == 1) {
    call(context, 0);
    return;
  }
  call_ = call;
  context_ = context;
  running_.store(n_threads_ - 1, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  call(context, 0);
  for (int spins = 0; running_.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < kSpins) {
      Pause();
    } else {
      sched_yield();  // more threads than CPUs: let the worker we wait for run
    }
  }
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
    ++seen;
    if (stop_) return;
    call_(context_, thread);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

int DefaultThreadCount() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cpus = static_cast<int>(std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cpus = CPU_COUNT(&set);
  if (const int quota = CgroupCpus(); quota > 0) cpus = std::min(cpus, quota);
  return std::clamp(cpus, 1, 256);
}

}  // namespace hadal
