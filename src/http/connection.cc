#include "http/connection.h"

#include <netinet/tcp.h>
#include <poll.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "http/request_id.h"

namespace hadal {
namespace {

using boost::system::error_code;

// What a client may send ahead while it waits for an answer.
constexpr size_t kReadAhead = 64 << 10;
constexpr size_t kReadSize = 8 << 10;
// The body of a refused request is read, to keep the connection, when it is at most this long.
constexpr uint64_t kSmallBody = 64 << 10;
// How often a client is looked at whose bytes are not being read.
constexpr std::chrono::milliseconds kHangUpPoll{100};
// Seconds of silence, seconds between the kernel's questions, and how many may stay unanswered.
constexpr int kKeepAliveIdle = 30, kKeepAliveInterval = 10, kKeepAliveProbes = 3;

// Holds the place of the exchange that is being answered.
class ActiveGuard {
 public:
  ActiveGuard(Exchange*& place, Exchange& exchange, Metrics& metrics)
      : place_(place), metrics_(metrics) {
    place_ = &exchange;
    metrics_.Change(Gauge::kHttpRequestsInFlight, 1);
  }
  ~ActiveGuard() {
    place_ = nullptr;
    metrics_.Change(Gauge::kHttpRequestsInFlight, -1);
  }
  ActiveGuard(const ActiveGuard&) = delete;
  ActiveGuard& operator=(const ActiveGuard&) = delete;

 private:
  Exchange*& place_;
  Metrics& metrics_;
};

// Value of the metric's label `cause`.
std::string_view CauseOf(const RequestParser& parser) {
  switch (parser.failure()->status) {
    case 408:
      return parser.head_done() ? "body_timeout" : "header_timeout";
    case 503:
      return "limit";
    default:
      return "malformed";
  }
}

}  // namespace

Awaitable<void> Signal::WaitUntil(Clock::time_point deadline) {
  timer_.expires_at(deadline);
  error_code ignored;
  co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

Connection::Connection(ServerCore& core, asio::io_context& context, ConnectionSet& set,
                       asio::ip::tcp::socket socket, bool refused)
    : core_(core),
      context_(context),
      set_(set),
      socket_(std::move(socket)),
      refused_(refused),
      wake_(context),
      space_(context),
      write_timer_(context) {
  ++(refused_ ? core_.n_refused : core_.n_connections);
  core_.metrics.Add(Counter::kHttpConnections);
  core_.metrics.Change(Gauge::kHttpConnectionsOpen, 1);
}

Connection::~Connection() {
  --(refused_ ? core_.n_refused : core_.n_connections);
  core_.metrics.Change(Gauge::kHttpConnectionsOpen, -1);
}

void Connection::Start() {
  if (core_.stopping || closed_) return core_.evictable.Put(*this, place_, std::nullopt);
  error_code ignored;
  const auto endpoint = socket_.remote_endpoint(ignored);
  if (!ignored) remote_ = endpoint.address().to_string(ignored);
  SetSocketOptions();
  set_.insert(this);
  last_read_ = Clock::now();
  asio::co_spawn(context_, ReadLoop(shared_from_this()), asio::detached);
  asio::co_spawn(context_, Serve(shared_from_this()), asio::detached);
}

// What fails here, fails because the client has gone already: reading will tell.
void Connection::SetSocketOptions() {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  if (core_.options.send_buffer_bytes > 0) {
    socket_.set_option(asio::socket_base::send_buffer_size(core_.options.send_buffer_bytes),
                       ignored);
  }
  // A client whose machine has gone says nothing at all; the kernel asks it.
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  for (const auto& [option, value] :
       {std::pair{TCP_KEEPIDLE, kKeepAliveIdle}, std::pair{TCP_KEEPINTVL, kKeepAliveInterval},
        std::pair{TCP_KEEPCNT, kKeepAliveProbes}}) {
    ::setsockopt(socket_.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
  }
}

void Connection::Evict() {
  if (active_ == nullptr) Cut("evicted");
}

void Connection::Cut(std::string_view cause) {
  if (closed_) return;
  closed_ = true;
  if (!cause.empty()) core_.metrics.Add(Counter::kHttpConnectionsCut, 1, {cause});
  error_code ignored;
  socket_.close(ignored);
  write_timer_.cancel();
  space_.Fire();
  SetGone();
}

void Connection::SetGone() {
  wake_.Fire();
  if (gone_) return;
  gone_ = true;
  if (active_ != nullptr && active_->on_gone_) std::exchange(active_->on_gone_, nullptr)();
}

bool Connection::keeps_alive() const {
  return !close_after_answer_ && !core_.draining && !core_.stopping;
}

bool Connection::PeerHasHungUp() {
  pollfd state{socket_.native_handle(), POLLRDHUP, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

Awaitable<void> Connection::ReadLoop(std::shared_ptr<Connection> self) {
  std::array<char, kReadSize> chunk;
  const size_t limit = std::max(kReadAhead, core_.options.max_header_bytes) + kReadSize;
  while (!closed_) {
    if (in_.size() >= limit) {
      if (PeerHasHungUp()) SetGone();
      co_await space_.WaitUntil(Clock::now() + kHangUpPoll);
      continue;
    }
    error_code error;
    const size_t n = co_await socket_.async_read_some(
        asio::buffer(chunk), asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    if (discarding_) continue;
    last_read_ = Clock::now();
    in_.append(chunk.data(), n);
    wake_.Fire();
  }
  read_ended_ = true;
  SetGone();
}

void Connection::Consume(size_t n) {
  in_.erase(0, n);
  space_.Fire();
}

// Waits until something follows what in_ holds now.
Awaitable<Connection::Input> Connection::MoreInput(Clock::time_point deadline) {
  const size_t before = in_.size();
  while (in_.size() == before) {
    if (read_ended_ || closed_) co_return Input::kEnd;
    if (Clock::now() >= deadline) co_return Input::kTimeout;
    co_await wake_.WaitUntil(deadline);
  }
  co_return Input::kMore;
}

Awaitable<void> Connection::Serve(std::shared_ptr<Connection> self) {
  try {
    if (refused_) {
      co_await Refuse();
    } else {
      while (co_await ServeOne()) {
      }
    }
    co_await Linger();
  } catch (const ClientGone&) {
  } catch (const std::exception&) {  // out of memory: this connection ends, the others go on
  }
  core_.evictable.Put(*this, place_, std::nullopt);
  Cut({});
  set_.erase(this);
}

// True when the connection can take another request.
Awaitable<bool> Connection::ServeOne() {
  RequestParser parser({core_.options.max_header_bytes, core_.options.max_body_bytes});
  const auto waiting =
      n_requests_ == 0 ? EvictionList::Tier::kNoRequestYet : EvictionList::Tier::kIdle;
  core_.evictable.Put(*this, place_, waiting);
  if (!co_await ReadHead(parser)) co_return false;
  ++n_requests_;
  HttpRequest& request = parser.request();
  const auto id = request.headers.Find("x-request-id");
  request.id = id && IsValidRequestId(*id) ? std::string(*id) : NewRequestId();
  request.remote = remote_;

  Admission admission;
  std::optional<BusyGuard> busy;
  BodyShare share(core_);
  if (!parser.failure()) {
    admission = core_.Admit(request);
    busy.emplace(core_);
    const bool small = parser.BodyRemaining().value_or(UINT64_MAX) <= kSmallBody;
    if (!admission.answer || (small && !request.wants_continue)) {
      core_.evictable.Put(*this, place_, EvictionList::Tier::kReadingBody);
      if (!co_await ReadBody(parser, share)) co_return false;
    } else {
      close_after_answer_ = true;
    }
  }
  core_.evictable.Put(*this, place_, std::nullopt);
  if (parser.failure()) {
    core_.metrics.Add(Counter::kHttpConnectionsCut, 1, {CauseOf(parser)});
    admission.answer = core_.Failure(parser.failure()->status, parser.failure()->message);
    close_after_answer_ = true;
  }
  co_return co_await Answer(std::move(request), std::move(admission));
}

// True when there is something to answer: a head, or a failure.
Awaitable<bool> Connection::ReadHead(RequestParser& parser) {
  Clock::time_point deadline =
      Clock::now() + (n_requests_ == 0 ? core_.options.header_timeout : core_.options.idle_timeout);
  bool begun = false;
  while (true) {
    if (!begun) {  // empty lines before a request are forgiven, as RFC 9112 asks
      Consume(std::min(in_.find_first_not_of("\r\n"), in_.size()));
      if (!in_.empty()) {
        begun = true;
        if (n_requests_ > 0) deadline = Clock::now() + core_.options.header_timeout;
      }
    }
    if (begun) {
      Consume(parser.Feed(in_));
      if (parser.head_done() || parser.failure()) co_return true;
    }
    const Input input = co_await MoreInput(deadline);
    if (input == Input::kEnd) co_return false;
    if (input == Input::kTimeout) {
      if (!begun) {
        Cut("idle");
        co_return false;
      }
      parser.Refuse(408, "the request's headers took too long");
      co_return true;
    }
  }
}

// As ReadHead, for the rest.
Awaitable<bool> Connection::ReadBody(RequestParser& parser, BodyShare& share) {
  if (parser.request().wants_continue && !parser.done() && in_.empty()) {
    const std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    co_await WriteAll(go_on);
  }
  const Clock::time_point deadline = Clock::now() + core_.options.body_timeout;
  while (!parser.done()) {
    if (!in_.empty()) {
      const size_t n = parser.Feed(in_);
      Consume(n);
      if (!share.Add(n) && !parser.failure()) {
        parser.Refuse(503, "too many large requests at once; send it again later");
      }
    }
    if (parser.done() || parser.failure()) break;
    const Input input = co_await MoreInput(deadline);
    if (input == Input::kEnd) co_return false;
    if (input == Input::kTimeout) {
      parser.Refuse(408, "the request's body took too long");
      break;
    }
  }
  co_return true;
}

Awaitable<bool> Connection::Answer(HttpRequest request, Admission admission) {
  request.received = last_read_;
  if (!request.keep_alive) close_after_answer_ = true;
  first_byte_.reset();
  sent_ = 0;
  Exchange exchange(*this, std::move(request));
  const ActiveGuard active(active_, exchange, core_.metrics);
  std::string error;
  std::optional<Reply> reply = std::move(admission.answer);
  if (!reply) co_await RunHandler(exchange, *admission.route, reply, error);
  if (reply && exchange.started()) {
    Cut({});  // half an answer cannot become an error: its end must not look like one
  }
  try {
    if (reply && !exchange.started()) co_await exchange.Respond(*std::move(reply));
    if (exchange.streaming_) co_await exchange.FinishStream();
  } catch (const ClientGone&) {
  }
  Record(exchange, admission.route, std::move(error));
  const bool whole = exchange.finished_;
  co_return whole&& keeps_alive() && !closed_;
}

// Afterwards `reply` holds what is still to be said.
Awaitable<void> Connection::RunHandler(Exchange& exchange, const Route& route,
                                       std::optional<Reply>& reply, std::string& error) {
  try {
    co_await route.handler(exchange);
    if (!exchange.started()) error = "the handler gave no answer";
  } catch (const ClientGone&) {
    Cut({});
    co_return;
  } catch (const Error& failure) {
    error = failure.message();
    reply = core_.site.render_error(failure);
  } catch (const std::exception& failure) {
    error = failure.what();
  } catch (...) {
    error = "unknown exception";
  }
  if (!error.empty() && !reply) {
    reply = core_.Failure(
        500, "internal error; the server's log knows it as request " + exchange.request().id);
  }
}

void Connection::Record(const Exchange& exchange, const Route* route, std::string error) {
  constexpr std::string_view kClasses[] = {"1xx", "2xx", "3xx", "4xx", "5xx"};
  const HttpRequest& request = exchange.request();
  const std::string_view metric = route == nullptr ? "other" : route->options.metric;
  const int status = exchange.status_ == 0 ? 499 : exchange.status_;
  core_.metrics.Add(Counter::kHttpRequests, 1,
                    {metric, kClasses[static_cast<size_t>(std::clamp(status / 100, 1, 5) - 1)]});
  const std::chrono::nanoseconds first_byte =
      first_byte_ ? *first_byte_ - request.received : std::chrono::nanoseconds{0};
  if (first_byte_) {
    core_.metrics.Observe(Histogram::kHttpFirstByte,
                          std::chrono::duration<double>(first_byte).count(), {metric});
  }
  if (!core_.site.access_log) return;
  AccessRecord record;
  record.method = request.method;
  record.path = request.path;
  record.remote = request.remote;
  record.request_id = request.id;
  record.key = request.key;
  record.status = status;
  record.body_bytes = request.body.size();
  record.sent_bytes = sent_;
  record.total = Clock::now() - request.received;
  record.first_byte = first_byte;
  record.complete = exchange.finished_;
  record.error = std::move(error);
  core_.site.access_log(ToJsonLine(record));
}

Awaitable<void> Connection::WriteAll(const std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    if (closed_) throw ClientGone();
    error_code error;
    const size_t n =
        socket_.write_some(asio::buffer(bytes.data() + done, bytes.size() - done), error);
    if (error == asio::error::would_block) {
      write_timer_.expires_after(core_.options.write_timeout);
      write_timer_.async_wait([self = shared_from_this(), wait = ++write_wait_](error_code ended) {
        if (!ended && self->write_wait_ == wait) self->Cut("slow_reader");
      });
      co_await socket_.async_wait(asio::ip::tcp::socket::wait_write,
                                  asio::redirect_error(asio::use_awaitable, error));
      ++write_wait_;  // a timer that has fired meanwhile must not count
      write_timer_.cancel();
      continue;
    }
    if (error) {
      Cut({});
      throw ClientGone();
    }
    if (!first_byte_) first_byte_ = Clock::now();
    done += n;
    sent_ += n;
  }
}

// Answers whatever the client is going to ask.
Awaitable<void> Connection::Refuse() {
  core_.metrics.Add(Counter::kHttpConnectionsCut, 1, {"limit"});
  n_requests_ = 1;
  Reply reply =
      core_.Failure(503, "the server has as many connections as it can serve", "connections");
  reply.headers.Add("content-length", std::to_string(reply.body.size()));
  reply.headers.Add("connection", "close");
  reply.headers.Add("retry-after", "1");
  const std::string bytes = SerializeHead(reply.status, reply.headers) + reply.body;
  co_await WriteAll(bytes);
}

// Lets the client read the last answer: closing at once, with bytes of the client unread, would
// make the kernel throw the answer away.
Awaitable<void> Connection::Linger() {
  if (closed_ || read_ended_ || n_requests_ == 0) co_return;
  const BusyGuard busy(core_);
  if (!refused_) core_.evictable.Put(*this, place_, EvictionList::Tier::kIdle);
  error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  discarding_ = true;
  Consume(in_.size());
  const Clock::time_point deadline = Clock::now() + core_.options.linger_timeout;
  while (!read_ended_ && !closed_ && Clock::now() < deadline) co_await wake_.WaitUntil(deadline);
}

}  // namespace hadal
