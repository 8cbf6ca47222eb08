#include "http/server.h"

#include <pthread.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"
#include "http/connection.h"
#include "http/server_core.h"

namespace hadal {
namespace {

using asio::ip::tcp;
using boost::system::error_code;

// How long to leave the listening socket alone when the system has no descriptor to give.
constexpr std::chrono::milliseconds kAcceptBackoff{20};

// Connections beyond the limit that are told about it; still more are closed without a word.
constexpr size_t kMaxRefused = 64;

struct IoThread {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  ConnectionSet connections;
  std::thread thread;
};

tcp::endpoint Resolve(asio::io_context& context, const std::string& host, uint16_t port) {
  error_code error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (!error) return {address, port};
  tcp::resolver resolver(context);
  const auto results = resolver.resolve(host, std::to_string(port), error);
  if (error || results.empty()) {
    Fail(ErrorKind::kUsage, "cannot find the address '{}' to listen on: {}", host, error.message());
  }
  return results.begin()->endpoint();
}

}  // namespace

struct HttpServer::Impl {
  Impl(const HttpServerOptions& options, Site site, Metrics& metrics)
      : core(options, std::move(site), metrics) {
    HADAL_CHECK(options.io_threads > 0);
    for (int i = 0; i < options.io_threads; ++i) threads.push_back(std::make_unique<IoThread>());
  }

  void Listen();
  Awaitable<void> AcceptLoop();
  void Welcome(tcp::socket socket, IoThread& io);
  void Stop();

  ServerCore core;
  std::vector<std::unique_ptr<IoThread>> threads;
  std::optional<tcp::acceptor> acceptor;  // on threads[0]
  uint16_t port = 0;
  std::mutex stop_mutex;  // one Stop at a time
};

void HttpServer::Impl::Listen() {
  const HttpServerOptions& options = core.options;
  const tcp::endpoint endpoint = Resolve(threads[0]->context, options.host, options.port);
  acceptor.emplace(threads[0]->context);
  error_code error;
  acceptor->open(endpoint.protocol(), error);
  if (!error) acceptor->set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    Fail(ErrorKind::kResource, "cannot listen on {}:{}: {}", options.host, options.port,
         error.message());
  }
  port = acceptor->local_endpoint().port();
}

Awaitable<void> HttpServer::Impl::AcceptLoop() {
  asio::steady_timer backoff(threads[0]->context);
  size_t next = 0;
  while (!core.stopping) {
    IoThread& io = *threads[next++ % threads.size()];
    tcp::socket socket(io.context);
    error_code error;
    co_await acceptor->async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
    if (!error) {
      Welcome(std::move(socket), io);
      continue;
    }
    if (core.stopping) break;
    // Descriptors or kernel memory have run out: close what has the least to lose, wait, go on.
    core.metrics.Add(Counter::kHttpConnectionsCut, 1, {"accept_error"});
    core.evictable.EvictOldest(EvictionList::Tier::kReadingBody);
    backoff.expires_after(kAcceptBackoff);
    error_code ignored;
    co_await backoff.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

void HttpServer::Impl::Welcome(tcp::socket socket, IoThread& io) {
  if (core.stopping) return;
  bool refused = false;
  if (core.n_connections >= core.options.max_connections &&
      !core.evictable.EvictOldest(EvictionList::Tier::kNotStarted)) {
    if (core.n_refused >= kMaxRefused) return;
    refused = true;
  }
  auto connection =
      std::make_shared<Connection>(core, io.context, io.connections, std::move(socket), refused);
  // A burst that comes faster than connections start must find somebody to make room.
  if (!refused) {
    core.evictable.Put(*connection, connection->place(), EvictionList::Tier::kNotStarted);
  }
  asio::post(io.context, [connection = std::move(connection)] { connection->Start(); });
}

void HttpServer::Impl::Stop() {
  const std::lock_guard lock(stop_mutex);
  core.stopping = true;
  core.WakeWaiters();
  asio::post(threads[0]->context, [this] {
    error_code ignored;
    acceptor->close(ignored);
  });
  for (const auto& io : threads) {
    // After `stopping` is set no connection starts, so this sees them all.
    asio::post(io->context, [&connections = io->connections] {
      const std::vector<Connection*> all(connections.begin(), connections.end());
      for (Connection* connection : all) connection->Cut("drain");
    });
    io->work.reset();
  }
  for (const auto& io : threads) {
    HADAL_CHECK(io->thread.get_id() != std::this_thread::get_id());
    if (io->thread.joinable()) io->thread.join();
  }
}

HttpServer::HttpServer(const HttpServerOptions& options, Site site, Metrics& metrics)
    : impl_(std::make_unique<Impl>(options, std::move(site), metrics)) {
  impl_->Listen();
  asio::co_spawn(impl_->threads[0]->context, impl_->AcceptLoop(), asio::detached);
  for (const auto& io : impl_->threads) {
    io->thread = std::thread([&context = io->context] {
      pthread_setname_np(pthread_self(), "hadal-io");
      context.run();
    });
  }
}

HttpServer::~HttpServer() {
  Stop();
}

uint16_t HttpServer::port() const {
  return impl_->port;
}

bool HttpServer::Drain(std::chrono::nanoseconds deadline) {
  impl_->core.draining = true;
  return impl_->core.WaitUntilIdle(Clock::now() + deadline);
}

bool HttpServer::draining() const {
  return impl_->core.draining;
}

void HttpServer::Stop() {
  impl_->Stop();
}

}  // namespace hadal
