// What all connections of a server share. Internal to http/.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"
#include "http/server.h"

namespace hadal {

class Connection;

// Connections that may be closed to make room, the oldest first, those with the least to lose
// first. Thread-safe.
class EvictionList {
 public:
  enum class Tier { kNoRequestYet, kIdle, kReadingBody, kNotStarted };
  struct Place {  // belongs to one connection, guarded by the list's mutex
    std::optional<Tier> tier;
    std::list<Connection*>::iterator position;
  };

  // Moves `connection` to the end of a tier, or out of the list.
  void Put(Connection& connection, Place& place, std::optional<Tier> tier);
  // Cuts one of the tiers up to `last`; false when nothing can be closed.
  bool EvictOldest(Tier last);

 private:
  std::mutex mutex_;  // guards tiers_ and every Place
  std::array<std::list<Connection*>, 4> tiers_;
};

// How a request is answered: by a handler, or at once.
struct Admission {
  const Route* route = nullptr;
  std::optional<Reply> answer;  // refusals, OPTIONS
};

struct ServerCore {
  ServerCore(const HttpServerOptions& server_options, Site the_site, Metrics& the_metrics);

  // Finds the route, and fills in request.parameters and request.key. Needs the head alone, so that
  // a refused request's body is never waited for.
  Admission Admit(HttpRequest& request) const;
  Reply Failure(int status, std::string_view message, std::string_view code = {}) const {
    return site.render_failure(status, message, code);
  }
  // x-request-id, Date, CORS.
  void AddCommonHeaders(const HttpRequest& request, Headers& headers) const;

  void EnterBusy();
  void LeaveBusy();
  // True when nobody was busy before `deadline` or Stop.
  bool WaitUntilIdle(std::chrono::steady_clock::time_point deadline);
  void WakeWaiters();

  const HttpServerOptions options;
  const Site site;
  Metrics& metrics;
  EvictionList evictable;
  std::atomic<bool> draining = false, stopping = false;
  std::atomic<size_t> n_connections = 0;         // without refused ones
  std::atomic<size_t> n_refused = 0;             // connections that are only told so
  std::atomic<uint64_t> pending_body_bytes = 0;  // of requests being read or answered

 private:
  Reply Preflight(const HttpRequest& request) const;
  std::mutex mutex_;  // guards n_busy_
  std::condition_variable idle_;
  size_t n_busy_ = 0;  // requests admitted and not finished, and last answers not yet read
};

// Held while a connection has something that draining must wait for.
class BusyGuard {
 public:
  explicit BusyGuard(ServerCore& core) : core_(core) { core_.EnterBusy(); }
  ~BusyGuard() { core_.LeaveBusy(); }
  BusyGuard(const BusyGuard&) = delete;
  BusyGuard& operator=(const BusyGuard&) = delete;

 private:
  ServerCore& core_;
};

// One request's share of pending_body_bytes.
class BodyShare {
 public:
  explicit BodyShare(ServerCore& core) : core_(core) {}
  ~BodyShare() { core_.pending_body_bytes -= bytes_; }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;
  // False when all requests together hold too much.
  bool Add(uint64_t bytes) {
    bytes_ += bytes;
    return (core_.pending_body_bytes += bytes) <= core_.options.max_pending_body_bytes;
  }

 private:
  ServerCore& core_;
  uint64_t bytes_ = 0;
};

}  // namespace hadal
