#include "insight/machine_peaks.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"

namespace hadal {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kReadBytes = size_t{512} << 20;

class Mapping {
 public:
  Mapping() {
    void* data =
        ::mmap(nullptr, kReadBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
      Fail(ErrorKind::kResource, "no {} MiB of memory to measure its speed", kReadBytes >> 20);
    }
    ::madvise(data, kReadBytes, MADV_HUGEPAGE);
    data_ = static_cast<uint8_t*>(data);
  }
  ~Mapping() { ::munmap(data_, kReadBytes); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  uint8_t* data() const { return data_; }

 private:
  uint8_t* data_;
};

// Best work per second of repeated runs of body(thread), each on all threads.
template <typename Body>
double BestRate(ThreadPool& pool, double seconds, double work, Body&& body) {
  double best = 0;
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(seconds));
  do {
    const Clock::time_point start = Clock::now();
    pool.Run(body);
    best = std::max(best, work / std::chrono::duration<double>(Clock::now() - start).count());
  } while (Clock::now() < end);
  return best;
}

}  // namespace

MachinePeaks MeasurePeaks(int n_threads, IsaLevel level, double seconds) {
  ThreadPool pool(n_threads);
  const ProbeKernels& probe = GetKernels(level).probe;
  std::atomic<float> sink{0};  // keeps the results alive
  const auto use = [&sink](float value) { sink.store(value, std::memory_order_relaxed); };
  MachinePeaks peaks;

  const auto rate = [&](float (*dot)(uint64_t rounds), uint64_t ops) {
    constexpr uint64_t kOps = 1'000'000'000;
    const uint64_t rounds = kOps / ops;
    return BestRate(pool, seconds / 3, static_cast<double>(rounds * ops) * n_threads,
                    [&](int) { use(dot(rounds)); }) /
           1e9;
  };
  peaks.int8_gops = rate(probe.int8_dot, probe.int8_ops);
  peaks.bf16_gflops = rate(probe.bf16_dot, probe.bf16_ops);

  const Mapping memory;
  const size_t share = kReadBytes / static_cast<size_t>(n_threads) / 4096 * 4096;
  pool.Run([&](int thread) {
    std::memset(memory.data() + share * static_cast<size_t>(thread), 1, share);
  });
  peaks.read_gbs =
      BestRate(pool, seconds / 3, static_cast<double>(share) * n_threads,
               [&](int thread) {
                 use(probe.read(memory.data() + share * static_cast<size_t>(thread), share));
               }) /
      1e9;
  return peaks;
}

}  // namespace hadal
