#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"

namespace hadal {
namespace {

TEST(ThreadPool, EveryIndexRunsOnceOnAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    std::vector<int> hits(1000);
    for (int repeat = 0; repeat < 20; ++repeat) {
      pool.ParallelFor(1000, [&](int64_t i, int thread) {
        ASSERT_LT(thread, threads);
        ++hits[static_cast<size_t>(i)];
      });
    }
    EXPECT_EQ(hits, std::vector<int>(1000, 20));
  }
}

TEST(ThreadPool, RunReachesEveryThreadAfterParking) {
  ThreadPool pool(3);
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::vector<int> seen(3);
    pool.Run([&](int thread) { seen[static_cast<size_t>(thread)] = 1; });
    EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), 0), 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

TEST(ThreadPool, WorkersRunWhereTheyArePinned) {
  const CpuSet allowed = ReadTopology().allowed;
  const std::vector<CpuSet> pins = {{allowed.front()}, {allowed.back()}, {allowed.front()}};
  ThreadPool pool(3, pins);
  std::vector<CpuSet> seen(3);
  for (int repeat = 0; repeat < 2; ++repeat) {
    pool.Run([&](int thread) { seen[static_cast<size_t>(thread)] = ReadTopology().allowed; });
  }
  EXPECT_EQ(seen[0], allowed);  // the caller's own
  EXPECT_EQ(seen[1], pins[1]);
  EXPECT_EQ(seen[2], pins[2]);
}

TEST(ThreadPool, APlaceThatDoesNotExistIsLeftOut) {
  ThreadPool pool(2, {{}, {100000}});
  std::vector<int> seen(2);
  pool.Run([&](int thread) { seen[static_cast<size_t>(thread)] = 1; });
  EXPECT_EQ(seen, (std::vector<int>{1, 1}));
}

TEST(ThreadPool, AddsUpWhatWorkersDid) {
  ThreadPool pool(3);
  const ThreadWork before = thread_work;
  for (int repeat = 0; repeat < 5; ++repeat) {
    pool.ParallelFor(100, [](int64_t i, int) {
      ++thread_work.kernel_calls;
      thread_work.bytes += static_cast<uint64_t>(i);
    });
  }
  ThreadWork work = thread_work - before;
  work += pool.WorkersWork();
  EXPECT_EQ(work.kernel_calls, 500u);
  EXPECT_EQ(work.bytes, 5u * 4950);
}

TEST(ThreadPool, RefusesAbsurdSizes) {
  EXPECT_THROW(ThreadPool(0), Error);
  EXPECT_THROW(ThreadPool(100000), Error);
}

}  // namespace
}  // namespace hadal
