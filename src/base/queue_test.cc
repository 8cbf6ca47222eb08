#include "base/queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace hadal {
namespace {

TEST(Queue, KeepsOrderAndBound) {
  Queue<int> queue(2);
  EXPECT_TRUE(queue.TryPush(1));
  EXPECT_TRUE(queue.TryPush(2));
  EXPECT_FALSE(queue.TryPush(3));
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_TRUE(queue.TryPush(4));
  EXPECT_EQ(queue.TryPop(), 2);
  EXPECT_EQ(queue.PopFor(std::chrono::seconds(1)), 4);
  EXPECT_EQ(queue.TryPop(), std::nullopt);
  EXPECT_EQ(queue.PopFor(std::chrono::milliseconds(1)), std::nullopt);
}

TEST(Queue, CloseDrainsThenEnds) {
  Queue<std::unique_ptr<int>> queue(4);
  EXPECT_TRUE(queue.Push(std::make_unique<int>(7)));
  queue.Close();
  EXPECT_FALSE(queue.Push(std::make_unique<int>(8)));
  EXPECT_FALSE(queue.TryPush(std::make_unique<int>(8)));
  const auto item = queue.Pop();
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(**item, 7);
  EXPECT_FALSE(queue.Pop().has_value());
  EXPECT_TRUE(queue.closed());
}

TEST(Queue, CloseWakesThoseWhoWait) {
  Queue<int> empty(1), full(1);
  full.TryPush(0);
  std::thread consumer([&] { EXPECT_FALSE(empty.Pop().has_value()); });
  std::thread producer([&] { EXPECT_FALSE(full.Push(1)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  empty.Close();
  full.Close();
  consumer.join();
  producer.join();
}

TEST(Queue, ManyThreadsLoseNothing) {
  constexpr int kThreads = 3, kItems = 2000;
  Queue<int> queue(5);
  std::atomic<int64_t> sum{0};
  std::atomic<int> received{0};
  std::vector<std::thread> producers, consumers;
  for (int t = 0; t < kThreads; ++t) {
    producers.emplace_back([&queue, t] {
      for (int i = 0; i < kItems; ++i) queue.Push(t * kItems + i);
    });
    consumers.emplace_back([&] {
      while (const auto item = queue.Pop()) {
        sum += *item;
        ++received;
      }
    });
  }
  for (std::thread& thread : producers) thread.join();
  queue.Close();
  for (std::thread& thread : consumers) thread.join();
  constexpr int64_t kTotal = kThreads * kItems;
  EXPECT_EQ(received, kTotal);
  EXPECT_EQ(sum, kTotal * (kTotal - 1) / 2);
}

}  // namespace
}  // namespace hadal
