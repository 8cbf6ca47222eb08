// One connection: a reader that never stops listening, so that a vanished client is noticed while
// its request is being answered, and a server of one request after the other. Internal to http/.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "http/access_log.h"
#include "http/exchange.h"
#include "http/request_parser.h"
#include "http/server_core.h"

namespace hadal {

using Clock = std::chrono::steady_clock;

// Connections that live on one I/O thread; only that thread touches it.
using ConnectionSet = std::unordered_set<Connection*>;

// A place for one coroutine to sleep until somebody on the same thread fires. Fires are not
// remembered: the sleeper checks its own condition, in a loop.
class Signal {
 public:
  explicit Signal(asio::io_context& context) : timer_(context) {}
  void Fire() { timer_.cancel(); }
  Awaitable<void> WaitUntil(Clock::time_point deadline);

 private:
  asio::steady_timer timer_;
};

// Everything but the constructor, executor() and place() belongs on the connection's own thread.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `refused`: one too many; it is told so and closed.
  Connection(ServerCore& core, asio::io_context& context, ConnectionSet& set,
             asio::ip::tcp::socket socket, bool refused);
  ~Connection();

  void Start();
  // Ends it now: pending reads, writes and waits return. `cause`: a value of the metric
  // hadal_http_connections_cut_total, or empty to count nothing.
  void Cut(std::string_view cause);

  // Cuts it to make room, unless a request is being answered by now.
  void Evict();

  asio::io_context::executor_type executor() { return context_.get_executor(); }
  EvictionList::Place& place() { return place_; }

  // For Exchange.
  ServerCore& core() { return core_; }
  asio::io_context& context() { return context_; }
  Signal& wake() { return wake_; }
  // The client has closed its half, or everything is over.
  bool gone() const { return gone_; }
  // Sends all of `bytes`, which must live until then. Throws ClientGone.
  Awaitable<void> WriteAll(const std::string& bytes);
  bool keeps_alive() const;
  void CloseAfterThisAnswer() { close_after_answer_ = true; }

 private:
  enum class Input { kMore, kEnd, kTimeout };

  Awaitable<void> ReadLoop(std::shared_ptr<Connection> self);
  Awaitable<void> Serve(std::shared_ptr<Connection> self);
  Awaitable<bool> ServeOne();
  Awaitable<bool> ReadHead(RequestParser& parser);
  Awaitable<bool> ReadBody(RequestParser& parser, BodyShare& share);
  Awaitable<Input> MoreInput(Clock::time_point deadline);
  Awaitable<bool> Answer(HttpRequest request, Admission admission);
  Awaitable<void> RunHandler(Exchange& exchange, const Route& route, std::optional<Reply>& reply,
                             std::string& error);
  Awaitable<void> Refuse();
  Awaitable<void> Linger();
  void Record(const Exchange& exchange, const Route* route, std::string error);
  void SetGone();
  void SetSocketOptions();
  void Consume(size_t n);
  bool PeerHasHungUp();

  ServerCore& core_;
  asio::io_context& context_;
  ConnectionSet& set_;
  asio::ip::tcp::socket socket_;
  const bool refused_;
  Signal wake_;   // Serve sleeps here: for input, or for what its handler waits for
  Signal space_;  // ReadLoop sleeps here while in_ is full
  asio::steady_timer write_timer_;
  uint64_t write_wait_ = 0;  // which wait write_timer_ is for
  std::string remote_;
  EvictionList::Place place_;

  std::string in_;  // arrived and not parsed yet
  Clock::time_point last_read_{};
  std::optional<Clock::time_point> first_byte_;  // of the current answer
  uint64_t sent_ = 0;                            // bytes of the current answer
  Exchange* active_ = nullptr;                   // the request being answered
  uint64_t n_requests_ = 0;
  bool read_ended_ = false, discarding_ = false, gone_ = false, closed_ = false;
  bool close_after_answer_ = false;
};

}  // namespace hadal
