// What recent requests asked for and why they took as long as they did.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace hadal::api {

// Thread-safe. Keeps the last `capacity` requests.
class RequestLog {
 public:
  explicit RequestLog(size_t capacity) : capacity_(capacity) {}

  struct Entry {
    std::string id;           // x-request-id
    std::string response_id;  // "chatcmpl-..."; empty when it got none
    std::optional<size_t> key;
    OrderedJson report;
  };
  void Add(Entry entry);

  // By either id; only for the key that made the request.
  std::optional<OrderedJson> Find(std::string_view id, std::optional<size_t> key) const;

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;  // guards entries_
  std::deque<Entry> entries_;
};

}  // namespace hadal::api
