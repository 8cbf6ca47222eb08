// A submitted request as its caller sees it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "engine/event_channel.h"

namespace hadal {

class Engine;

// Move-only; destroying it cancels the request. Used by one thread at a time. The engine must
// outlive it.
class RequestHandle {
 public:
  RequestHandle() = default;
  ~RequestHandle();
  RequestHandle(RequestHandle&& other) noexcept;
  RequestHandle& operator=(RequestHandle&& other) noexcept;

  uint64_t id() const { return id_; }
  uint64_t seed() const { return seed_; }  // given or drawn
  uint32_t max_tokens() const { return max_tokens_; }

  // The next event, waiting for it; FinishedEvent is the last, nothing follows it.
  std::optional<RequestEvent> Next();
  // Empty also when there is none right now; ended() tells the two apart.
  std::optional<RequestEvent> TryNext();
  // Empty also when `timeout` passes.
  std::optional<RequestEvent> NextFor(std::chrono::nanoseconds timeout);
  bool ended() const { return ended_; }

  // Asks the engine to stop; a FinishedEvent (kCancelled, unless it was done) still follows.
  void Cancel();

 private:
  friend class Engine;
  std::optional<RequestEvent> Note(std::optional<RequestEvent> event);

  Engine* engine_ = nullptr;
  std::unique_ptr<EventChannel> channel_;
  uint64_t id_ = 0;
  uint64_t seed_ = 0;
  uint32_t max_tokens_ = 0;
  bool ended_ = false;
};

}  // namespace hadal
