#include "engine/request_handle.h"

#include <utility>

#include "engine/engine.h"

namespace hadal {

RequestHandle::~RequestHandle() {
  if (channel_ == nullptr) return;
  // The counter last: ~Engine requires that no handle is left, and the queue is the engine's.
  engine_->commands_.Push(Engine::Abandon{id_, std::move(channel_)});
  engine_->open_handles_.fetch_sub(1);
}

RequestHandle::RequestHandle(RequestHandle&& other) noexcept {
  *this = std::move(other);
}

RequestHandle& RequestHandle::operator=(RequestHandle&& other) noexcept {
  std::swap(engine_, other.engine_);
  std::swap(channel_, other.channel_);
  std::swap(id_, other.id_);
  std::swap(seed_, other.seed_);
  std::swap(max_tokens_, other.max_tokens_);
  std::swap(ended_, other.ended_);
  return *this;
}

std::optional<RequestEvent> RequestHandle::Note(std::optional<RequestEvent> event) {
  if (event && std::holds_alternative<FinishedEvent>(*event)) ended_ = true;
  return event;
}

std::optional<RequestEvent> RequestHandle::Next() {
  if (ended_ || channel_ == nullptr) return std::nullopt;
  return Note(channel_->events.Pop());
}

std::optional<RequestEvent> RequestHandle::TryNext() {
  if (ended_ || channel_ == nullptr) return std::nullopt;
  return Note(channel_->events.TryPop());
}

std::optional<RequestEvent> RequestHandle::NextFor(std::chrono::nanoseconds timeout) {
  if (ended_ || channel_ == nullptr) return std::nullopt;
  return Note(channel_->events.PopFor(timeout));
}

void RequestHandle::Cancel() {
  if (channel_ != nullptr && !ended_) engine_->commands_.Push(Engine::Cancel{id_});
}

}  // namespace hadal
