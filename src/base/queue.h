// A bounded first-in first-out queue between threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "base/check.h"

namespace hadal {

// Any number of producers and consumers. After Close nothing more goes in; what is inside still
// comes out. The queue must outlive every call on it.
template <typename T>
class Queue {
 public:
  explicit Queue(size_t capacity) : capacity_(capacity) { HADAL_CHECK(capacity > 0); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Waits while the queue is full. False (and `item` dropped) when it is closed.
  bool Push(T item) {
    std::unique_lock lock(mutex_);
    not_full_.wait(lock, [this] { return closed_ || items_.size() < capacity_; });
    if (closed_) return false;
    items_.push_back(std::move(item));
    // Notified under the lock: the consumer of the last item may destroy the queue.
    not_empty_.notify_one();
    return true;
  }

  // False at once when the queue is full or closed.
  bool TryPush(T item) {
    const std::lock_guard lock(mutex_);
    if (closed_ || items_.size() >= capacity_) return false;
    items_.push_back(std::move(item));
    not_empty_.notify_one();
    return true;
  }

  // Waits for an item; empty when the queue is closed and drained.
  std::optional<T> Pop() {
    std::unique_lock lock(mutex_);
    not_empty_.wait(lock, [this] { return closed_ || !items_.empty(); });
    return TakeFront();
  }

  // Empty when there is none right now.
  std::optional<T> TryPop() {
    const std::lock_guard lock(mutex_);
    return TakeFront();
  }

  // Like Pop, but gives up after `timeout`.
  std::optional<T> PopFor(std::chrono::nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    not_empty_.wait_for(lock, timeout, [this] { return closed_ || !items_.empty(); });
    return TakeFront();
  }

  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    not_empty_.notify_all();
    not_full_.notify_all();
  }

  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  std::optional<T> TakeFront() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    not_full_.notify_one();
    return item;
  }

  const size_t capacity_;
  mutable std::mutex mutex_;  // guards items_ and closed_
  std::condition_variable not_empty_, not_full_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace hadal
