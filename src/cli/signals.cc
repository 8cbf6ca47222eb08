#include "cli/signals.h"

#include <ctime>

namespace hadal::cli {

StopSignals::StopSignals() {
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
    count_.fetch_add(1);
    count_.notify_all();
  }
}

}  // namespace hadal::cli
