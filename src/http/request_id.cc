#include "http/request_id.h"

#include <fmt/core.h>

#include <algorithm>
#include <random>

namespace hadal {

bool IsValidRequestId(std::string_view id) {
  return !id.empty() && id.size() <= 128 &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c <= '~'; });
}

std::string NewRequestId() {
  std::random_device random;
  const auto draw = [&random] { return (uint64_t{random()} << 32) | random(); };
  const uint64_t high = draw(), low = draw();
  return fmt::format("req-{:016x}{:016x}", high, low);
}

}  // namespace hadal
