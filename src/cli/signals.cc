#include "cli/signals.h"

#include <ctime>

namespace hadal::cli {

StopSignals::StopSignals(std::function<void(int count)> on_signal)
    : on_signal_(std::move(on_signal)) {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals_, &previous_);
  thread_ = std::thread([this] { Watch(); });
}

StopSignals::~StopSignals() {
  done_.store(true);
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

void StopSignals::Watch() {
  constexpr timespec kPeriod{0, 100'000'000};
  while (!done_.load()) {
    if (sigtimedwait(&signals_, nullptr, &kPeriod) < 0) continue;
    const int count = count_.fetch_add(1) + 1;
    count_.notify_all();
    on_signal_(count);
  }
}

}  // namespace hadal::cli
