// One request and the answer to it, as a handler coroutine sees them.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "http/asio.h"
#include "http/message.h"
#include "http/notifier.h"

namespace hadal {

// Thrown out of an exchange's calls when there is nobody left to answer: the client went away, read
// too slowly, or the server is stopping. A handler lets it pass after cancelling what it started.
class ClientGone : public std::exception {
 public:
  const char* what() const noexcept override { return "the client is gone"; }
};

// A handler answers with either one Respond, or StartStream, Writes and FinishStream. All calls
// belong on the exchange's own I/O thread, inside the handler; none may be under way twice. A
// handler may wait only through this class: then it ends soon after the client or the server does.
//
// GCC 12 destroys some temporaries of a co_await expression twice. Inside one, write no `?:` that
// makes an object, no braced list of pairs, and no aggregate: make the Reply in a statement of its
// own, then co_await exchange.Respond(std::move(reply)).
//
// A client is gone when it closes its connection or half of it, whether or not anything is being
// written; requests that it sent ahead on the same connection are no sign of that.
class Exchange {
 public:
  Exchange(Connection& connection, HttpRequest request);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const HttpRequest& request() const { return request_; }

  // Sends the whole answer, with a Content-Length. Also tried when the client has closed its half.
  Awaitable<void> Respond(Reply reply);

  // Sends the head of an answer of unknown length: chunks, or the connection's end for HTTP/1.0.
  Awaitable<void> StartStream(int status, Headers headers);
  // Suspends while the peer reads slowly. An empty `bytes` does nothing.
  Awaitable<void> Write(std::string bytes);
  // A handler that returns without it after StartStream gets it done.
  Awaitable<void> FinishStream();

  // A handle for other threads to end a Wait of this exchange.
  Notifier notifier();
  enum class Wake { kNotified, kTimeout };
  // Returns at once when a Notify has come since the last Wait. Throws ClientGone as soon as the
  // client is gone.
  Awaitable<Wake> Wait(std::chrono::nanoseconds timeout);

  bool gone() const;
  // Called on the I/O thread once, when the client goes, while the handler waits or writes; at once
  // when it is gone already. Must not throw, nor call the exchange.
  void OnClientGone(std::function<void()> callback);

  bool draining() const;                         // the server takes no new work
  bool started() const { return status_ != 0; }  // a status has been sent

 private:
  friend class Connection;
  Awaitable<void> SendHead(int status, Headers headers, std::string body);

  Connection& connection_;
  HttpRequest request_;
  std::shared_ptr<Notifier::State> notifier_;
  std::function<void()> on_gone_;
  int status_ = 0;
  bool streaming_ = false, finished_ = false;
};

}  // namespace hadal
