// Input: bytes of a connection; the first byte says how large the pieces are in which they arrive.
// The requests found must not depend on the pieces.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/request_parser.h"

namespace {

using Outcome = std::vector<hadal::HttpRequest>;  // up to the first failure

Outcome Run(std::string_view input, size_t step) {
  const hadal::ParserLimits limits{.head_bytes = 512, .body_bytes = 2048};
  Outcome outcome;
  std::string pending;
  std::optional<hadal::RequestParser> parser;
  parser.emplace(limits);
  bool more = true;
  while (more) {
    const size_t before = pending.size();
    const bool was_head_done = parser->head_done();
    if (!pending.empty()) {
      const size_t used = parser->Feed(pending);
      if (used > pending.size()) __builtin_trap();
      pending.erase(0, used);
    }
    if (parser->failure()) return outcome;
    if (parser->done()) {
      outcome.push_back(std::move(parser->request()));
      if (outcome.back().body.size() > limits.body_bytes) __builtin_trap();
      parser.emplace(limits);
      continue;
    }
    if (pending.size() < before || parser->head_done() != was_head_done) continue;
    more = !input.empty();
    pending += input.substr(0, step);
    input.remove_prefix(std::min(step, input.size()));
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Outcome whole = Run(input, SIZE_MAX);
  const Outcome pieces = Run(input, size_t{data[0] % 64u} + 1);
  // What is hopeless may be noticed sooner or later by them (an open quote in a chunk's extension),
  // but nothing becomes right or wrong.
  if (whole.size() != pieces.size()) __builtin_trap();
  for (size_t i = 0; i < whole.size(); ++i) {
    const hadal::HttpRequest& a = whole[i];
    const hadal::HttpRequest& b = pieces[i];
    if (a.method != b.method || a.path != b.path || a.query != b.query || a.body != b.body ||
        a.headers.items() != b.headers.items()) {
      __builtin_trap();
    }
    hadal::SerializeHead(200, a.headers);
  }
  return 0;
}
