#include "http/server_core.h"

#include <fmt/core.h>

#include <boost/asio/post.hpp>
#include <ctime>

#include "http/connection.h"

namespace hadal {
namespace {

Reply PlainText(int status, std::string_view message, std::string_view /*code*/) {
  return {status, Headers("content-type", "text/plain; charset=utf-8"),
          std::string(message) + "\n"};
}

// "Mon, 30 Nov 2026 14:00:00 GMT", in English whatever the locale.
std::string HttpDate(std::time_t time) {
  constexpr std::string_view kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::string_view kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm utc{};
  gmtime_r(&time, &utc);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[utc.tm_wday], utc.tm_mday,
                     kMonths[utc.tm_mon], utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

}  // namespace

void EvictionList::Put(Connection& connection, Place& place, std::optional<Tier> tier) {
  const std::lock_guard lock(mutex_);
  if (place.tier) tiers_[static_cast<size_t>(*place.tier)].erase(place.position);
  place.tier = tier;
  if (!tier) return;
  std::list<Connection*>& list = tiers_[static_cast<size_t>(*tier)];
  place.position = list.insert(list.end(), &connection);
}

bool EvictionList::EvictOldest(Tier last) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i <= static_cast<size_t>(last); ++i) {
    std::list<Connection*>& tier = tiers_[i];
    if (tier.empty()) continue;
    Connection& oldest = *tier.front();
    tier.pop_front();
    oldest.place().tier.reset();
    asio::post(oldest.executor(),
               [connection = oldest.shared_from_this()] { connection->Evict(); });
    return true;
  }
  return false;
}

ServerCore::ServerCore(const HttpServerOptions& server_options, Site the_site, Metrics& the_metrics)
    : options(server_options),
      site([&the_site] {
        Site full = std::move(the_site);
        if (!full.render_failure) full.render_failure = PlainText;
        if (!full.render_error) {
          full.render_error = [render = full.render_failure](const Error& error) {
            return render(StatusOf(error.kind()), error.message(), error.details().code);
          };
        }
        return full;
      }()),
      metrics(the_metrics) {}

Admission ServerCore::Admit(HttpRequest& request) const {
  Admission admission;
  Router::Match match = site.router.Find(request.method, request.segments);
  admission.route = match.route;
  request.parameters = std::move(match.parameters);
  if (!site.keys.empty()) request.key = site.keys.Find(request.headers);
  if (request.method == "OPTIONS" && match.route == nullptr) {
    admission.answer = Preflight(request);
    if (!match.allow.empty()) admission.answer->headers.Add("allow", match.allow);
  } else if (!site.keys.empty() && !request.key &&
             (match.route == nullptr || !match.route->options.open)) {
    admission.answer = Failure(401,
                               "this server needs a valid API key: send it as "
                               "'Authorization: Bearer KEY' or 'x-api-key: KEY'",
                               "invalid_api_key");
    admission.answer->headers.Add("www-authenticate", "Bearer");
  } else if (match.route == nullptr && match.allow.empty()) {
    admission.answer = Failure(404, "there is nothing at " + request.path);
  } else if (match.route == nullptr) {
    admission.answer =
        Failure(405, fmt::format("{} takes {}, not {}", request.path, match.allow, request.method));
    admission.answer->headers.Add("allow", match.allow);
  } else if (draining && !match.route->options.while_draining) {
    admission.answer =
        Failure(503, "the server is shutting down; send the request elsewhere", "draining");
  }
  return admission;
}

Reply ServerCore::Preflight(const HttpRequest& request) const {
  Reply reply;
  reply.status = 204;
  if (site.cors_origin.empty() || !request.headers.Has("access-control-request-method")) {
    return reply;
  }
  reply.headers.Add("access-control-allow-methods", "GET, POST, DELETE, OPTIONS");
  if (const auto wanted = request.headers.Find("access-control-request-headers")) {
    reply.headers.Add("access-control-allow-headers", std::string(*wanted));
  }
  reply.headers.Add("access-control-max-age", "600");
  return reply;
}

void ServerCore::AddCommonHeaders(const HttpRequest& request, Headers& headers) const {
  headers.Add("date", HttpDate(std::time(nullptr)));
  headers.Add("x-request-id", request.id);
  if (site.cors_origin.empty()) return;
  const auto origin = request.headers.Find("origin");
  if (site.cors_origin != "*") headers.Add("vary", "origin");
  if (!origin || (site.cors_origin != "*" && *origin != site.cors_origin)) return;
  headers.Add("access-control-allow-origin", site.cors_origin);
  headers.Add("access-control-expose-headers", "*");
}

void ServerCore::EnterBusy() {
  const std::lock_guard lock(mutex_);
  ++n_busy_;
}

void ServerCore::LeaveBusy() {
  const std::lock_guard lock(mutex_);
  if (--n_busy_ == 0) idle_.notify_all();
}

bool ServerCore::WaitUntilIdle(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  idle_.wait_until(lock, deadline, [this] { return n_busy_ == 0 || stopping; });
  return n_busy_ == 0 && !stopping;  // after Stop they were cut, not finished
}

void ServerCore::WakeWaiters() {
  const std::lock_guard lock(mutex_);
  idle_.notify_all();
}

}  // namespace hadal
