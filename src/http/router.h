// Which handler answers which request.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/exchange.h"

namespace hadal {

using Handler = std::function<Awaitable<void>(Exchange&)>;

struct RouteOptions {
  std::string_view metric = "other";  // value of the label `route` in the metric table
  bool open = false;                  // served without an API key
  bool while_draining = false;        // served while the server takes no new work
};

struct Route {
  std::string method;
  std::vector<std::string> pattern;  // segments; "{id}" takes one, a last "{id*}" one or more
  Handler handler;
  RouteOptions options;
};

// Filled once, read by many threads.
class Router {
 public:
  // `pattern`: "/v1/models/{id*}". A GET route answers HEAD too.
  void Add(std::string method, std::string_view pattern, Handler handler,
           RouteOptions options = {});

  struct Match {
    const Route* route = nullptr;  // the first that fits, in the order of Add
    std::vector<std::pair<std::string, std::string>> parameters;
    std::string allow;  // methods of this path, "GET, HEAD, OPTIONS"; empty: no such path
  };
  Match Find(std::string_view method, const std::vector<std::string>& segments) const;

  const std::vector<Route>& routes() const { return routes_; }

 private:
  std::vector<Route> routes_;
};

}  // namespace hadal
