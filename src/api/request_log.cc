#include "api/request_log.h"

#include <algorithm>
#include <utility>

namespace hadal::api {

void RequestLog::Add(Entry entry) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() == capacity_) entries_.pop_front();
  entries_.push_back(std::move(entry));
}

std::optional<OrderedJson> RequestLog::Find(std::string_view id, std::optional<size_t> key) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.rbegin(), entries_.rend(), [&](const Entry& entry) {
    return entry.key == key && (entry.id == id || entry.response_id == id);
  });
  if (found == entries_.rend()) return std::nullopt;
  return found->report;
}

}  // namespace hadal::api
