// A request as handlers see it, and a reply as they give it.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace hadal {

// Names and values in order; names compare without case, and one may occur several times. No braced
// lists on purpose: GCC 12 cannot compile them inside a co_await expression.
class Headers {
 public:
  Headers() = default;
  Headers(std::string name, std::string value) { Add(std::move(name), std::move(value)); }

  Headers& Add(std::string name, std::string value) {
    items_.emplace_back(std::move(name), std::move(value));
    return *this;
  }
  // The first value of that name; absent when there is none.
  std::optional<std::string_view> Find(std::string_view name) const;
  bool Has(std::string_view name) const { return Find(name).has_value(); }
  const std::vector<std::pair<std::string, std::string>>& items() const { return items_; }

 private:
  std::vector<std::pair<std::string, std::string>> items_;
};

struct HttpRequest {
  std::string method;  // as sent: "GET"
  std::string path;    // decoded, without query; empty segments are gone: "/v1//models/" is
                       // "/v1/models"
  std::vector<std::string> segments;                            // the path's parts, each decoded
  std::vector<std::pair<std::string, std::string>> query;       // decoded, in order
  std::vector<std::pair<std::string, std::string>> parameters;  // {id} of the route's pattern
  Headers headers;
  std::string body;
  std::string remote;           // address of the peer: "127.0.0.1"
  std::string id;               // x-request-id, the client's or ours
  std::optional<size_t> key;    // index of the API key, when keys are in use
  bool http11 = true;           // false: HTTP/1.0, which knows no chunks
  bool keep_alive = true;       // as the client wishes
  bool wants_continue = false;  // Expect: 100-continue
  std::chrono::steady_clock::time_point received = {};  // when its last byte arrived

  // The first value of that name.
  std::optional<std::string_view> Query(std::string_view name) const;
  // Value of a pattern's {name}; empty when the route has none of that name.
  std::string_view Parameter(std::string_view name) const;
};

// Has constructors because GCC 12 destroys an aggregate that is made inside a co_await expression
// twice: co_await exchange.Respond({200, headers, body}) must be safe.
struct Reply {
  Reply() = default;
  Reply(int reply_status, Headers reply_headers, std::string reply_body)
      : status(reply_status), headers(std::move(reply_headers)), body(std::move(reply_body)) {}

  int status = 200;
  Headers headers;
  std::string body;
};

// The status that base/error.h gives an error of this kind; 500 where it gives none.
int StatusOf(ErrorKind kind);

// "Not Found"; "Unknown" for codes that this server does not use.
std::string_view ReasonPhrase(int status);

bool EqualsIgnoringCase(std::string_view a, std::string_view b);

// Status line, headers and the empty line. Control characters inside headers become '?', so that a
// value taken from a request can never begin a header of its own.
std::string SerializeHead(int status, const Headers& headers);

}  // namespace hadal
