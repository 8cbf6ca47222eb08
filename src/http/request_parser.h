// HTTP/1.x requests out of bytes that arrive in any pieces. No socket, no thread, no clock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace hadal {

struct ParserLimits {
  size_t head_bytes = 64 << 10;  // request line and headers; also a chunk's header, and trailers
  uint64_t body_bytes = 16 << 20;
};

// What a client did wrong, as the answer it gets. The connection cannot be used any further.
struct HttpFailure {
  int status = 400;
  std::string message;
};

// One request; a new object for the next one. Refuses what two servers could read in two ways:
// Content-Length beside Transfer-Encoding, differing lengths, codings other than chunked, no Host
// or several. Trailers are read and dropped.
class RequestParser {
 public:
  explicit RequestParser(const ParserLimits& limits);
  ~RequestParser();

  // Takes as much as it can from the front of `input` and returns how many bytes; what it leaves
  // must stand at the front of the next call. Stops after the head, so that the caller can refuse
  // the request before its body comes. Must not be called when done() or failed.
  size_t Feed(std::string_view input);

  // Gives the request up, for reasons that the parser cannot see (time).
  void Refuse(int status, std::string message) {
    failure_ = HttpFailure{status, std::move(message)};
  }

  bool head_done() const { return head_done_; }
  bool done() const { return done_; }
  const std::optional<HttpFailure>& failure() const { return failure_; }

  // With head_done(): everything but body, id and times. `body` and its parts are filled in when
  // done().
  HttpRequest& request() { return request_; }
  // Bytes of body announced and not here yet; absent for chunks.
  std::optional<uint64_t> BodyRemaining() const;

 private:
  struct Impl;
  void FinishHead();

  const ParserLimits limits_;
  std::unique_ptr<Impl> impl_;
  HttpRequest request_;
  size_t head_bytes_ = 0;
  bool head_done_ = false, done_ = false;
  std::optional<HttpFailure> failure_;
};

}  // namespace hadal
