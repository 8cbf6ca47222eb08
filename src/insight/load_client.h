// A client of OpenAI-compatible servers, for loads: many streams at once, from one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "insight/load_report.h"

namespace hadal::load {

// Where a server is. "http://host:8000", with or without "/v1" or a path before it.
struct ServerUrl {
  std::string host, port;
  std::string base;  // "/v1", "/proxy/v1": what stands before "/completions"
};

// Throws Error(kUsage); https is a proxy's work here as in `serve`.
ServerUrl ParseUrl(std::string_view url);

struct ClientOptions {
  ServerUrl server;
  std::string api_key;            // empty: none
  double timeout = 120;           // seconds without an event, after which a request counts as hung
  uint32_t max_concurrency = 0;   // 0: no limit
  std::function<bool()> stopped;  // polled; may be empty
  std::function<void(size_t)> on_done;  // the number of requests that have ended; may be empty
};

struct LoadRequest {
  double arrival = 0;  // seconds after the start
  std::string body;    // of a streaming request
};

// Sends all of them to base + `route` ("/completions"), each at its arrival or when
// max_concurrency lets it, and gives one result each, in their order. What goes wrong with a
// request is in its result; throws Error(kResource) when the host has no address, Error(kCancelled)
// when stopped.
std::vector<RequestResult> RunLoad(const ClientOptions& options, const std::string& route,
                                   std::span<const LoadRequest> requests);

// GET base + `route` as JSON. Throws Error(kResource) when the server cannot be asked.
Json FetchJson(const ClientOptions& options, const std::string& route);

}  // namespace hadal::load
