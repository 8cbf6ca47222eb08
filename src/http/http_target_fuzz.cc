// Input: a request target. What is accepted must come out the same when its path is sent again.
#include <cstdint>
#include <string_view>

#include "http/router.h"
#include "http/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto target = hadal::ParseTarget(input);
  if (!target) return 0;
  std::string joined;
  for (const std::string& segment : target->segments) {
    if (segment.empty() || segment.find('\0') != std::string::npos) __builtin_trap();
    joined += "/" + segment;
  }
  if (target->path != (target->segments.empty() ? (input == "*" ? "*" : "/") : joined)) {
    __builtin_trap();
  }
  hadal::Router router;
  router.Add("GET", "/v1/models/{id*}", nullptr);
  router.Add("GET", "/v1/requests/{id}/why", nullptr);
  const auto match = router.Find("GET", target->segments);
  if ((match.route != nullptr) != !match.parameters.empty()) __builtin_trap();
  return 0;
}
