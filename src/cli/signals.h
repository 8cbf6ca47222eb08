// SIGINT and SIGTERM for programs that end in good order.
#pragma once

#include <atomic>
#include <csignal>
#include <thread>

namespace hadal::cli {

// Takes both signals away from every thread started after it, and counts them on a thread of its
// own. Make it before any other thread.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int count() const { return count_.load(); }
  // Until the first signal.
  void Wait() const { count_.wait(0); }

 private:
  void Watch();

  sigset_t signals_{}, previous_{};
  std::atomic<int> count_{0};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace hadal::cli
