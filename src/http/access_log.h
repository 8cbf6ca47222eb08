// One line for each answered request.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace hadal {

struct AccessRecord {
  std::string method, path;  // no query: it may hold secrets
  std::string remote, request_id;
  std::optional<size_t> key;              // index of the API key
  int status = 0;                         // 499: the client went before it got one
  uint64_t body_bytes = 0;                // received
  uint64_t sent_bytes = 0;                // sent, head and framing included
  std::chrono::nanoseconds total{};       // from the request's last byte to the end of the answer
  std::chrono::nanoseconds first_byte{};  // ... to the answer's first byte
  bool complete = true;                   // false: cut off before the answer's end
  std::string error;                      // what a handler threw
};

// One JSON object without a line end, whatever bytes the client put into its path.
std::string ToJsonLine(const AccessRecord& record);

}  // namespace hadal
