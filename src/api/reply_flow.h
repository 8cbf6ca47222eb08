// Engine to connection: how a generation becomes an HTTP reply, whole or streamed.
#pragma once

#include <chrono>

#include "api/generation.h"
#include "api/reply_format.h"
#include "http/exchange.h"

namespace hadal::api {

// Waits for the end and answers with one JSON document. Throws Error (then nothing was sent) and
// ClientGone.
Awaitable<void> SendWhole(Exchange& exchange, Generation& generation, const ReplyFormat& format,
                          Headers headers);

struct StreamOptions {
  bool include_usage = false;
  std::chrono::nanoseconds keep_alive{};  // a comment after so long without an event
};

// Sends events as they come, then "[DONE]". An Error after the head becomes an event of its own,
// the last one. Throws ClientGone.
Awaitable<void> SendStream(Exchange& exchange, Generation& generation, ReplyFormat& format,
                           Headers headers, StreamOptions options);

}  // namespace hadal::api
