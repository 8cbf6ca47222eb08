// Queue 2: how the events of one request reach its caller.
#pragma once

#include <cstddef>
#include <functional>

#include "base/queue.h"
#include "sched/events.h"
#include "sched/sequence.h"

namespace hadal {

// Owned by the RequestHandle; dies on the engine thread.
struct EventChannel {
  explicit EventChannel(size_t capacity) : events(capacity) {}
  Queue<RequestEvent> events;
  std::function<void()> wake;  // Request::wake
  TimePoint submitted{};
  // The engine thread's own.
  TimePoint last_token{};
  bool wake_due = false;
};

}  // namespace hadal
