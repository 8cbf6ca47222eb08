#include "chat/marker_scanner.h"

#include <utility>

namespace hadal {

void MarkerScanner::Release(std::string& out) {
  out.append(newlines_, '\n');
  out += partial_;
  newlines_ = 0;
  partial_.clear();
  skip_ = Skip::kNothing;
}

std::optional<size_t> MarkerScanner::Push(char c, std::string& out) {
  if (!partial_.empty()) {
    partial_ += c;
    for (size_t i = 0; i < markers_.size(); ++i) {
      if (markers_[i] == partial_) {
        marker_newlines_ = std::exchange(newlines_, 0);
        partial_.clear();
        skip_ = Skip::kNothing;
        return i;
      }
      if (markers_[i].starts_with(partial_)) return std::nullopt;
    }
    // No marker has a second '<', so nothing but `c` itself can begin another one.
    partial_.pop_back();
    Release(out);
  }
  if (skip_ == Skip::kSpace && IsJsonSpace(c)) return std::nullopt;
  if (c == '\n') {
    if (skip_ == Skip::kNothing) ++newlines_;
  } else if (c == '<' && !markers_.empty()) {
    partial_ = c;
  } else {
    Release(out);
    out += c;
  }
  return std::nullopt;
}

std::string MarkerScanner::TakeHeld() {
  std::string held;
  Release(held);
  return held;
}

}  // namespace hadal
