#include "engine/text_stream.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace hadal {

StopFilter::StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (size_t i = 0; i < stops_.size(); ++i) {
    if (stops_[i].empty()) Fail(ErrorKind::kInvalid, "stop string {} is empty", i + 1);
    if (FindInvalidUtf8(stops_[i]) != std::string::npos) {
      Fail(ErrorKind::kInvalid, "stop string {} is not valid UTF-8", i + 1);
    }
  }
}

// Cuts pending_ before the stop string that is complete first.
bool StopFilter::FindStop() {
  size_t best_end = std::string::npos;
  const std::string* best = nullptr;
  for (const std::string& stop : stops_) {
    const size_t begin = pending_.find(stop);
    if (begin == std::string::npos) continue;
    const size_t end = begin + stop.size();
    if (best == nullptr || end < best_end || (end == best_end && stop.size() > best->size())) {
      best_end = end;
      best = &stop;
    }
  }
  if (best == nullptr) return false;
  pending_.resize(best_end - best->size());
  stopped_ = *best;
  return true;
}

size_t StopFilter::HeldBack() const {
  size_t held = 0;
  for (const std::string& stop : stops_) {
    const size_t most = std::min(stop.size() - 1, pending_.size());
    for (size_t n = most; n > held; --n) {
      if (std::string_view(pending_).ends_with(std::string_view(stop).substr(0, n))) held = n;
    }
  }
  return held;
}

std::string StopFilter::Push(std::string_view text) {
  if (stopped_) return {};
  pending_ += text;
  if (FindStop()) return std::exchange(pending_, {});
  const size_t certain = pending_.size() - HeldBack();
  std::string out = pending_.substr(0, certain);
  pending_.erase(0, certain);
  return out;
}

std::string StopFilter::Flush() {
  return stopped_ ? std::string() : std::exchange(pending_, {});
}

TextStream::TextStream(const Tokenizer& tokenizer, std::vector<std::string> stops,
                       bool skip_special, std::vector<int32_t> keep_special)
    : decoder_(tokenizer, skip_special, std::move(keep_special)), filter_(std::move(stops)) {}

std::string TextStream::Push(int32_t token) {
  const std::string text = decoder_.Push(token);
  decoded_bytes_ += text.size();
  return filter_.Push(text);
}

std::string TextStream::Finish() {
  std::string text = filter_.Push(decoder_.Flush());
  return text + filter_.Flush();
}

}  // namespace hadal
