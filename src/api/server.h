// The routes of the OpenAI- and DeepSeek-compatible server, over one model.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "api/api_error.h"
#include "api/request_log.h"
#include "api/served_model.h"
#include "http/server.h"
#include "metrics/metrics.h"

namespace hadal::api {

// What may stand before OpenAI's routes: nothing, its own prefix, DeepSeek's.
inline constexpr std::string_view kRoutePrefixes[] = {"", "/v1", "/beta"};

struct ApiOptions {
  bool strict_params = false;    // unknown members of a body are refused instead of reported
  bool reasoning_alias = false;  // thoughts also as `reasoning`
  std::chrono::nanoseconds keep_alive = std::chrono::seconds(10);  // between comments in a stream
  int prepare_threads = 2;
  size_t remembered_requests = 1000;
};

// Makes the Site of an HttpServer, which must be stopped before this dies. Until SetModel the
// routes that need the model answer 503 and /ready tells how far loading has come.
class ApiServer {
 public:
  ApiServer(const ApiOptions& options, Metrics& metrics);
  ~ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  // Router and error bodies; keys, CORS and access log are the caller's to add.
  Site MakeSite();

  // From 0 to 1. Thread-safe.
  void SetProgress(double loaded) { progress_.store(loaded, std::memory_order_relaxed); }
  // Once. Thread-safe.
  void SetModel(ServedModel model);

 private:
  // Throws ApiError(503) while the model is loading.
  const ServedModel& Model() const;
  bool ready() const { return model_.load(std::memory_order_acquire) != nullptr; }

  template <typename Prepare>
  Awaitable<void> Complete(Exchange& exchange, Prepare prepare);
  void AddCompletionRoutes(Router& router);
  using TextFunction = OrderedJson (*)(const OrderedJson& body, const ServedModel& model);
  Awaitable<void> AnswerText(Exchange& exchange, TextFunction function);
  void AddTextRoutes(Router& router);
  void AddModelRoutes(Router& router);
  void AddStatusRoutes(Router& router);
  Reply ReadyReply(const Exchange& exchange) const;
  Reply RequestReply(const Exchange& exchange) const;

  const ApiOptions options_;
  Metrics& metrics_;
  RequestLog log_;
  std::unique_ptr<const ServedModel> owned_model_;
  std::atomic<const ServedModel*> model_{nullptr};
  std::atomic<double> progress_{0};
  asio::thread_pool pool_;  // last: its jobs use the rest
};

// A handler that only computes its reply.
Handler Answering(std::function<Reply(const Exchange&)> make);

// A reply whose body is JSON.
Reply JsonReply(int status, const OrderedJson& body);

// Throws ApiError(415) for a compressed body.
void CheckEncoding(const HttpRequest& request);

// The body of a request as JSON. Throws ApiError(400).
OrderedJson ParseBody(const std::string& body);

}  // namespace hadal::api
