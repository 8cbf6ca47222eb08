// /health, /ready, /version, /metrics, /v1/requests/{id}.
#include <fmt/core.h>

#include "api/server.h"

namespace hadal::api {

Reply ApiServer::ReadyReply(const Exchange& exchange) const {
  const bool takes_work = ready() && !exchange.draining();
  const char* status = takes_work ? "ready" : ready() ? "draining" : "loading";
  const double progress = ready() ? 1.0 : progress_.load(std::memory_order_relaxed);
  return JsonReply(takes_work ? 200 : 503, {{"status", status}, {"progress", progress}});
}

Reply ApiServer::RequestReply(const Exchange& exchange) const {
  const std::string id(exchange.request().Parameter("id"));
  const std::optional<OrderedJson> report = log_.Find(id, exchange.request().key);
  if (!report) {
    throw ApiError(404,
                   fmt::format("no request '{}': it has not ended yet, belongs to another key, or "
                               "is older than the last {}",
                               id, options_.remembered_requests),
                   "id", "request_not_found");
  }
  return JsonReply(200, *report);
}

void ApiServer::AddStatusRoutes(Router& router) {
  const RouteOptions open{.metric = "ops", .open = true, .while_draining = true};
  const RouteOptions guarded{.metric = "ops", .while_draining = true};
  const auto health = [](const Exchange&) { return JsonReply(200, {{"status", "ok"}}); };
  const auto version = [](const Exchange&) { return JsonReply(200, {{"version", HADAL_VERSION}}); };
  const auto metrics = [this](const Exchange&) {
    return Reply(200, Headers("Content-Type", std::string(Metrics::kContentType)), metrics_.Text());
  };
  const auto request = [this](const Exchange& exchange) { return RequestReply(exchange); };

  router.Add("GET", "/health", Answering(health), open);
  router.Add("GET", "/ready",
             Answering([this](const Exchange& exchange) { return ReadyReply(exchange); }), open);
  router.Add("GET", "/version", Answering(version), guarded);
  router.Add("GET", "/metrics", Answering(metrics), guarded);
  for (const char* pattern : {"/v1/requests/{id}", "/requests/{id}"}) {
    router.Add("GET", pattern, Answering(request), {.metric = "requests", .while_draining = true});
  }
}

}  // namespace hadal::api
