#include "api/server.h"

#include <fmt/core.h>

#include <utility>

namespace hadal::api {
namespace {

// Value of the metric's label `cause`.
std::string_view RejectionCause(const Error& error, const ApiError& shown) {
  if (const auto& overflow = error.details().context_overflow) {
    return overflow->of_memory ? "kv_capacity" : "context_length";
  }
  if (shown.code() == "model_loading") return "not_ready";
  if (shown.code() == "queue_full" || shown.code() == "draining") return shown.code();
  switch (shown.status()) {
    case 401:
    case 403:
      return "unauthorized";
    case 404:
      return "not_found";
    case 503:
      return "overload";
    default:
      return "invalid";
  }
}

Reply ErrorReply(const ApiError& error) {
  Reply reply = JsonReply(error.status(), ErrorBody(error));
  if (error.status() == 401) {
    reply.headers.Add("WWW-Authenticate", "Bearer");
    reply.headers.Add("WWW-Authenticate", "Basic realm=\"hadal\"");  // browsers ask for a password
  }
  if (error.retry_after) reply.headers.Add("Retry-After", std::to_string(*error.retry_after));
  return reply;
}

}  // namespace

ApiServer::ApiServer(const ApiOptions& options, Metrics& metrics)
    : options_(options),
      metrics_(metrics),
      log_(options.remembered_requests),
      pool_(static_cast<size_t>(options.prepare_threads)) {}

ApiServer::~ApiServer() {
  pool_.join();
}

Site ApiServer::MakeSite() {
  Site site;
  AddCompletionRoutes(site.router);
  AddTextRoutes(site.router);
  AddModelRoutes(site.router);
  AddStatusRoutes(site.router);
  site.render_failure = [this](int status, std::string_view message, std::string_view code) {
    ApiError error(status, std::string(message), {}, std::string(code));
    if (status == 503) error.retry_after = 2;
    metrics_.Add(Counter::kRejected, 1, {RejectionCause(error, error)});
    return ErrorReply(error);
  };
  site.render_error = [this](const Error& error) {
    const ApiError api_error = ToApiError(error);
    if (api_error.status() != 500) {
      metrics_.Add(Counter::kRejected, 1, {RejectionCause(error, api_error)});
    }
    return ErrorReply(api_error);
  };
  return site;
}

void ApiServer::SetModel(ServedModel model) {
  owned_model_ = std::make_unique<const ServedModel>(std::move(model));
  model_.store(owned_model_.get(), std::memory_order_release);
  metrics_.Set(Gauge::kReady, 1);
}

const ServedModel& ApiServer::Model() const {
  const ServedModel* model = model_.load(std::memory_order_acquire);
  if (model != nullptr) return *model;
  ApiError error(503, "the model is still loading; see /ready", {}, "model_loading");
  error.retry_after = 2;
  throw error;
}

Handler Answering(std::function<Reply(const Exchange&)> make) {
  return [make = std::move(make)](Exchange& exchange) -> Awaitable<void> {
    co_await exchange.Respond(make(exchange));
  };
}

Reply JsonReply(int status, const OrderedJson& body) {
  return {status, Headers("Content-Type", "application/json"), Dump(body)};
}

void CheckEncoding(const HttpRequest& request) {
  const auto encoding = request.headers.Find("content-encoding");
  if (!encoding || encoding->empty() || EqualsIgnoringCase(*encoding, "identity")) return;
  throw ApiError(415, fmt::format("Content-Encoding '{}': send the body as it is", *encoding), {},
                 "unsupported_encoding");
}

OrderedJson ParseBody(const std::string& body) {
  try {
    return ParseOrderedJson(body, "the request body");
  } catch (const Error& error) {
    throw ApiError(400, error.message(), {}, "invalid_json");
  }
}

}  // namespace hadal::api
