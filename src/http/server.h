// An HTTP/1.1 server: connections, limits, timeouts, draining. What is served is the Site's affair.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "http/api_keys.h"
#include "http/message.h"
#include "http/router.h"
#include "metrics/metrics.h"

namespace hadal {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;  // 0: any free one, see HttpServer::port
  int io_threads = 2;
  size_t max_header_bytes = 64 << 10;
  uint64_t max_body_bytes = 16 << 20;
  uint64_t max_pending_body_bytes = 256 << 20;  // of all requests together; beyond it: 503
  // Beyond it the connection with the least to lose makes room, idle ones and those that have not
  // sent a whole head yet; when all are busy, newcomers get 503.
  size_t max_connections = 1024;
  int send_buffer_bytes = 256 << 10;  // the kernel's, per connection; 0: its own choice
  std::chrono::milliseconds header_timeout{10'000};  // first to last byte of a head
  std::chrono::milliseconds body_timeout{60'000};    // for the whole body
  std::chrono::milliseconds idle_timeout{75'000};    // between requests
  std::chrono::milliseconds write_timeout{30'000};   // for each 64 KiB that a client reads
  std::chrono::milliseconds linger_timeout{2'000};   // for the client to read a last answer
};

// Everything the server asks its user for. Called from the I/O threads, several at once.
struct Site {
  Router router;
  ApiKeys keys;
  // Body and headers for what the transport itself refuses: 400, 401, 404, 405, 408, 413, 431, 500,
  // 503 ... Must not throw. Default: plain text. `code`: a word for the cause where the status says
  // too little ("invalid_api_key", "draining", "connections"), or empty.
  std::function<Reply(int status, std::string_view message, std::string_view code)> render_failure;
  // The same for an Error that a handler lets out. Default: a status by kind, and render_failure.
  std::function<Reply(const Error&)> render_error;
  // Takes one JSON object at a time, see access_log.h. Default: none.
  std::function<void(const std::string& line)> access_log;
  // Origin that browsers may call from: "*", "https://chat.example"; empty: CORS is off.
  std::string cors_origin;
};

class HttpServer {
 public:
  // Binds and starts to serve. Throws Error(kUsage) for a bad address and Error(kResource) when it
  // cannot listen there (port in use). `metrics` outlives the server.
  HttpServer(const HttpServerOptions& options, Site site, Metrics& metrics);
  // As Stop.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;

  // From now on only routes with `while_draining` are served, others get 503. Waits until the
  // running requests are finished or `deadline` has passed or another thread calls Stop. True when
  // all were finished. Again and again.
  bool Drain(std::chrono::nanoseconds deadline);
  bool draining() const;

  // Cuts every connection, waits for the handlers to end, joins the threads. Any thread but the
  // server's own; again and again.
  void Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hadal
