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

TEST(ThreadPool, RefusesAbsurdSizes) {
  EXPECT_THROW(ThreadPool(0), Error);
  EXPECT_THROW(ThreadPool(100000), Error);
}

}  // namespace
}  // namespace hadal
