// Work counted by the thread that does it, so that counting needs neither locks nor thread numbers.
#pragma once

#include <cstdint>

namespace hadal {

struct ThreadWork {
  uint64_t kernel_calls = 0;
  uint64_t bytes = 0;

  ThreadWork& operator+=(const ThreadWork& other) {
    kernel_calls += other.kernel_calls;
    bytes += other.bytes;
    return *this;
  }
  ThreadWork operator-(const ThreadWork& other) const {
    return {kernel_calls - other.kernel_calls, bytes - other.bytes};
  }
};

// What this thread has done since it began. ThreadPool adds its workers' up after each job.
extern constinit thread_local ThreadWork thread_work;

}  // namespace hadal
