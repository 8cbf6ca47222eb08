#include "insight/load_client.h"

#include <fmt/core.h>

// clang-format off
#include <utility>  // Asio 1.74 uses std::exchange without it
#include <boost/asio/awaitable.hpp>
// clang-format on
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <exception>
#include <limits>

#include "base/error.h"

namespace hadal::load {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using Request = http::request<http::string_body>;
using Parser = http::response_parser<http::buffer_body>;
using Clock = std::chrono::steady_clock;

constexpr size_t kMostErrorBytes = 64 << 10;

Clock::duration Seconds(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Tcp::resolver::results_type Resolve(asio::io_context& io, const ServerUrl& server) {
  boost::system::error_code error;
  Tcp::resolver resolver(io);
  auto addresses = resolver.resolve(server.host, server.port, error);
  if (error) Fail(ErrorKind::kResource, "{}: {}", server.host, error.message());
  return addresses;
}

Request MakeRequest(const ClientOptions& options, http::verb verb, const std::string& route,
                    const std::string& body) {
  Request request(verb, options.server.base + route, 11);
  request.set(http::field::host, options.server.host + ":" + options.server.port);
  request.set(http::field::user_agent, "hadal-bench");
  if (!options.api_key.empty()) {
    request.set(http::field::authorization, "Bearer " + options.api_key);
  }
  if (!body.empty()) {
    request.set(http::field::content_type, "application/json");
    request.set(http::field::accept, "text/event-stream");
    request.body() = body;
  }
  request.prepare_payload();
  return request;
}

// All requests of one run; lives on one thread.
class Run {
 public:
  Run(const ClientOptions& options, std::string route, std::span<const LoadRequest> requests)
      : options_(options),
        route_(std::move(route)),
        requests_(requests),
        results_(requests.size()),
        watch_(io_),
        addresses_(Resolve(io_, options.server)) {}

  std::vector<RequestResult> Execute() {
    const size_t n = options_.max_concurrency > 0
                         ? std::min<size_t>(options_.max_concurrency, requests_.size())
                         : requests_.size();
    start_ = Clock::now();
    for (size_t i = 0; i < n; ++i) {
      ++active_;
      asio::co_spawn(io_, Work(), [this](const std::exception_ptr& failure) { Ended(failure); });
    }
    if (options_.stopped) asio::co_spawn(io_, WatchForStop(), asio::detached);
    io_.run();
    if (failure_) std::rethrow_exception(failure_);
    if (stopped_) Fail(ErrorKind::kCancelled, "stopped");
    return std::move(results_);
  }

 private:
  // One connection to the server, kept for the next request where the server keeps it.
  struct Connection {
    explicit Connection(asio::io_context& io) : stream(io) {}
    beast::tcp_stream stream;
    beast::flat_buffer buffer;
    std::array<char, 4096> piece;  // of a body
    bool open = false;
  };

  double Now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  void Ended(const std::exception_ptr& failure) {
    if (failure && !failure_) failure_ = failure;
    if (--active_ == 0 || failure) io_.stop();
  }

  asio::awaitable<void> WatchForStop() {
    while (!stopped_) {
      watch_.expires_after(std::chrono::milliseconds(50));
      co_await watch_.async_wait(asio::use_awaitable);
      stopped_ = options_.stopped();
    }
    io_.stop();
  }

  // Takes one request after the other; as many of these run as there may be requests at once.
  asio::awaitable<void> Work() {
    Connection connection(io_);
    asio::steady_timer timer(io_);
    while (next_ < requests_.size()) {
      const size_t i = next_++;
      timer.expires_at(start_ + Seconds(requests_[i].arrival));
      co_await timer.async_wait(asio::use_awaitable);
      co_await Perform(connection, requests_[i].body, results_[i]);
      ++n_done_;
      if (options_.on_done) options_.on_done(n_done_);
    }
  }

  asio::awaitable<void> Perform(Connection& connection, const std::string& body,
                                RequestResult& result) {
    const Request request = MakeRequest(options_, http::verb::post, route_, body);
    result.start = Now();
    const bool reused = connection.open;
    co_await Attempt(connection, request, result);
    // The server may have closed a kept connection while we wrote into it.
    if (reused && result.outcome == Outcome::kLost) {
      const double start = result.start;
      result = RequestResult();
      result.start = start;
      co_await Attempt(connection, request, result);
    }
    result.end = Now();
    if (!connection.open) connection.stream.close();
  }

  asio::awaitable<void> Attempt(Connection& connection, const Request& request,
                                RequestResult& result) {
    beast::error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    connection.stream.expires_after(Seconds(options_.timeout));
    const bool kept = std::exchange(connection.open, false);
    if (!kept) {
      connection.buffer.clear();
      co_await connection.stream.async_connect(addresses_, token);
      if (!error) connection.stream.socket().set_option(Tcp::no_delay(true), error);
    }
    if (!error) co_await http::async_write(connection.stream, request, token);
    Parser parser;
    // No limit; Boost 1.74 takes "none" for 0 where a length is announced.
    parser.body_limit(std::numeric_limits<uint64_t>::max());
    // A refusal may come while the request is still being written: read in any case.
    const bool unwritten = error.failed();
    if (connection.stream.socket().is_open() && error != beast::error::timeout) {
      co_await http::async_read_header(connection.stream, connection.buffer, parser, token);
    }
    if (error) {
      result.outcome = error == beast::error::timeout ? Outcome::kHung : Outcome::kLost;
      result.problem =
          fmt::format("{}: {}", unwritten ? "sending" : "waiting for the answer", error.message());
      co_return;
    }
    result.answer = Now();
    result.status = static_cast<int>(parser.get().result_int());
    if (result.status == 200) {
      co_await ReadStream(connection, parser, result);
    } else {
      co_await ReadRefusal(connection, parser, result);
    }
    connection.open = parser.is_done() && parser.keep_alive() && !unwritten;
  }

  // The next bytes of the body, empty at its end or with `error` set.
  asio::awaitable<std::string_view> ReadSome(Connection& connection, Parser& parser,
                                             beast::error_code& error) {
    if (parser.is_done()) co_return std::string_view();
    parser.get().body().data = connection.piece.data();
    parser.get().body().size = connection.piece.size();
    auto token = asio::redirect_error(asio::use_awaitable, error);
    co_await http::async_read_some(connection.stream, connection.buffer, parser, token);
    if (error == http::error::need_buffer) error = {};
    co_return std::string_view(connection.piece.data(),
                               connection.piece.size() - parser.get().body().size);
  }

  asio::awaitable<void> ReadRefusal(Connection& connection, Parser& parser, RequestResult& result) {
    std::string body;
    beast::error_code error;
    result.outcome = Outcome::kRefused;
    while (!parser.is_done() && !error && body.size() < kMostErrorBytes) {
      body += co_await ReadSome(connection, parser, error);
    }
    result.problem = ErrorMessageOf(body);
  }

  asio::awaitable<void> ReadStream(Connection& connection, Parser& parser, RequestResult& result) {
    StreamReader reader;
    beast::error_code error;
    double last_event = result.answer;
    while (!parser.is_done() && !error && reader.problem().empty()) {
      // Comments keep a connection alive, not a request.
      connection.stream.expires_at(start_ + Seconds(last_event + options_.timeout));
      const std::string_view bytes = co_await ReadSome(connection, parser, error);
      reader.Feed(bytes, Now());
      last_event = std::max(last_event, reader.last_event());
    }
    result.chunks = reader.chunks();
    result.prompt_tokens = reader.prompt_tokens();
    result.output_tokens =
        reader.has_usage() ? reader.output_tokens() : static_cast<uint32_t>(reader.chunks().size());
    if (reader.has_cached()) result.cached_tokens = reader.cached_tokens();
    if (!reader.problem().empty()) {
      result.outcome = Outcome::kBroken;
      result.problem = reader.problem();
    } else if (error == beast::error::timeout) {
      result.outcome = Outcome::kHung;
      result.problem = fmt::format("no event for {} s", options_.timeout);
    } else if (error || !reader.done() || !reader.finished()) {
      result.outcome = Outcome::kCut;
      result.problem = error            ? error.message()
                       : !reader.done() ? "the stream ended without [DONE]"
                                        : "the stream ended without a finish_reason";
    } else {
      result.outcome = Outcome::kOk;
    }
  }

  const ClientOptions& options_;
  const std::string route_;
  const std::span<const LoadRequest> requests_;
  std::vector<RequestResult> results_;
  asio::io_context io_{1};
  asio::steady_timer watch_;
  Tcp::resolver::results_type addresses_;
  Clock::time_point start_;
  size_t next_ = 0, n_done_ = 0, active_ = 0;
  bool stopped_ = false;
  std::exception_ptr failure_;
};

}  // namespace

ServerUrl ParseUrl(std::string_view url) {
  const std::string whole(url);
  constexpr std::string_view kScheme = "http://";
  if (url.substr(0, kScheme.size()) != kScheme) {
    Fail(ErrorKind::kUsage, "{}: not an http:// address of a server", whole);
  }
  url.remove_prefix(kScheme.size());
  const size_t slash = std::min(url.find('/'), url.size());
  std::string_view place = url.substr(0, slash), path = url.substr(slash);
  ServerUrl server;
  server.port = "80";
  const size_t bracket = place.rfind(']');  // [::1]:8000
  const size_t colon = place.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos) {
    server.port = place.substr(colon + 1);
    place = place.substr(0, colon);
  }
  if (!place.empty() && place.front() == '[' && place.back() == ']') {
    place = place.substr(1, place.size() - 2);
  }
  server.host = place;
  if (server.host.empty() || server.port.empty() ||
      server.port.find_first_not_of("0123456789") != std::string::npos) {
    Fail(ErrorKind::kUsage, "{}: not an http:// address of a server", whole);
  }
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  const bool versioned = path.size() >= 3 && path.substr(path.size() - 3) == "/v1";
  server.base = std::string(path) + (versioned ? "" : "/v1");
  return server;
}

std::vector<RequestResult> RunLoad(const ClientOptions& options, const std::string& route,
                                   std::span<const LoadRequest> requests) {
  if (requests.empty()) return {};
  return Run(options, route, requests).Execute();
}

Json FetchJson(const ClientOptions& options, const std::string& route) {
  const std::string where = fmt::format("http://{}:{}{}{}", options.server.host,
                                        options.server.port, options.server.base, route);
  asio::io_context io;
  const auto addresses = Resolve(io, options.server);
  beast::error_code error;
  beast::tcp_stream stream(io);
  http::response<http::string_body> response;
  beast::flat_buffer buffer;
  // Beast's time limits hold for asynchronous operations only.
  const auto then_read = [&](beast::error_code failed, size_t) {
    error = failed;
    if (failed) return;
    http::async_read(stream, buffer, response,
                     [&error](beast::error_code read, size_t) { error = read; });
  };
  const Request request = MakeRequest(options, http::verb::get, route, "");
  stream.expires_after(Seconds(options.timeout));
  stream.async_connect(addresses, [&](beast::error_code failed, const Tcp::endpoint&) {
    error = failed;
    if (!failed) http::async_write(stream, request, then_read);
  });
  io.run();
  if (error) Fail(ErrorKind::kResource, "{}: {}", where, error.message());
  if (response.result_int() != 200) {
    Fail(ErrorKind::kResource, "{}: {}: {}", where, response.result_int(),
         ErrorMessageOf(response.body()));
  }
  return ParseJson(response.body(), where);
}

}  // namespace hadal::load
