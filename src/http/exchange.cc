#include "http/exchange.h"

#include <fmt/core.h>

#include <atomic>
#include <boost/asio/post.hpp>
#include <mutex>

#include "base/check.h"
#include "http/connection.h"

namespace hadal {

struct Notifier::State {
  std::atomic<bool> pending = false;
  std::mutex mutex;
  Connection* connection = nullptr;  // guarded by mutex; null when the exchange has ended
};

void Notifier::Notify() const {
  if (!state_ || state_->pending.exchange(true)) return;
  const std::lock_guard lock(state_->mutex);
  if (state_->connection == nullptr) return;
  asio::post(state_->connection->executor(), [state = state_] {
    // On the I/O thread, which alone ends exchanges: the pointer stays what it is.
    Connection* connection = nullptr;
    {
      const std::lock_guard inner(state->mutex);
      connection = state->connection;
    }
    if (connection != nullptr) connection->wake().Fire();
  });
}

Exchange::Exchange(Connection& connection, HttpRequest request)
    : connection_(connection), request_(std::move(request)) {}

Exchange::~Exchange() {
  if (!notifier_) return;
  const std::lock_guard lock(notifier_->mutex);
  notifier_->connection = nullptr;
}

Notifier Exchange::notifier() {
  if (!notifier_) {
    notifier_ = std::make_shared<Notifier::State>();
    notifier_->connection = &connection_;
  }
  return Notifier(notifier_);
}

Awaitable<Exchange::Wake> Exchange::Wait(std::chrono::nanoseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  while (true) {
    if (gone()) throw ClientGone();
    if (notifier_ && notifier_->pending.exchange(false)) co_return Wake::kNotified;
    if (Clock::now() >= deadline) co_return Wake::kTimeout;
    co_await connection_.wake().WaitUntil(deadline);
  }
}

bool Exchange::gone() const {
  return connection_.gone();
}

void Exchange::OnClientGone(std::function<void()> callback) {
  if (gone()) {
    callback();
  } else {
    on_gone_ = std::move(callback);
  }
}

bool Exchange::draining() const {
  return connection_.core().draining;
}

Awaitable<void> Exchange::Respond(Reply reply) {
  HADAL_CHECK(!started());
  const bool bodiless = reply.status == 204 || reply.status == 304;
  Headers headers = std::move(reply.headers);
  if (!bodiless) headers.Add("content-length", std::to_string(reply.body.size()));
  if (bodiless || request_.method == "HEAD") reply.body.clear();
  co_await SendHead(reply.status, std::move(headers), std::move(reply.body));
  finished_ = true;
}

Awaitable<void> Exchange::StartStream(int status, Headers headers) {
  HADAL_CHECK(!started());
  if (gone()) throw ClientGone();
  if (request_.http11) {
    headers.Add("transfer-encoding", "chunked");
  } else {
    connection_.CloseAfterThisAnswer();
  }
  streaming_ = true;
  co_await SendHead(status, std::move(headers), "");
}

Awaitable<void> Exchange::SendHead(int status, Headers headers, std::string body) {
  connection_.core().AddCommonHeaders(request_, headers);
  if (!connection_.keeps_alive()) {
    connection_.CloseAfterThisAnswer();  // draining may have begun: the answer says so, so be it
    headers.Add("connection", "close");
  } else if (!request_.http11) {
    headers.Add("connection", "keep-alive");
  }
  status_ = status;
  const std::string bytes = SerializeHead(status, headers) + body;
  co_await connection_.WriteAll(bytes);
}

Awaitable<void> Exchange::Write(std::string bytes) {
  HADAL_CHECK(streaming_);
  if (gone()) throw ClientGone();
  if (bytes.empty() || request_.method == "HEAD") co_return;
  if (request_.http11) bytes = fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
  co_await connection_.WriteAll(bytes);
}

Awaitable<void> Exchange::FinishStream() {
  HADAL_CHECK(streaming_);
  streaming_ = false;
  std::string end;
  if (request_.http11 && request_.method != "HEAD") end = "0\r\n\r\n";
  co_await connection_.WriteAll(end);
  finished_ = true;
}

}  // namespace hadal
