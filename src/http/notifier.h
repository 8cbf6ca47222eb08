// How another thread wakes a handler.
#pragma once

#include <memory>

namespace hadal {

class Connection;

// A copyable handle on one exchange, see Exchange::notifier. Notify may be called from any thread,
// any number of times, also long after the exchange and its server are gone; it never blocks on
// more than a short lock, and costs one atomic exchange while an earlier call has not been seen
// yet.
class Notifier {
 public:
  Notifier() = default;  // wakes nobody
  void Notify() const;

 private:
  friend class Exchange;
  struct State;
  explicit Notifier(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;  // shared with the exchange: either may go first
};

}  // namespace hadal
