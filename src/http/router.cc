#include "http/router.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "http/target.h"

namespace hadal {
namespace {

using Parameters = std::vector<std::pair<std::string, std::string>>;

std::optional<Parameters> Matches(const std::vector<std::string>& pattern,
                                  const std::vector<std::string>& segments) {
  Parameters parameters;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (i >= segments.size()) return std::nullopt;
    const std::string& part = pattern[i];
    if (part.front() != '{') {
      if (part != segments[i]) return std::nullopt;
      continue;
    }
    const bool rest = part[part.size() - 2] == '*';
    std::string value = segments[i];
    if (rest) {
      for (size_t j = i + 1; j < segments.size(); ++j) value += "/" + segments[j];
    }
    parameters.emplace_back(part.substr(1, part.size() - (rest ? 3 : 2)), std::move(value));
    if (rest) return parameters;
  }
  if (segments.size() != pattern.size()) return std::nullopt;
  return parameters;
}

void AppendMethod(std::string& allow, std::string_view method) {
  if (!allow.empty()) allow += ", ";
  allow += method;
}

}  // namespace

void Router::Add(std::string method, std::string_view pattern, Handler handler,
                 RouteOptions options) {
  std::optional<Target> target = ParseTarget(pattern);
  HADAL_CHECK(target);
  for (const std::string& part : target->segments) {
    HADAL_CHECK(part.front() != '{' || (part.size() > 2 && part.back() == '}'));
  }
  routes_.push_back({std::move(method), std::move(target->segments), std::move(handler), options});
}

Router::Match Router::Find(std::string_view method,
                           const std::vector<std::string>& segments) const {
  Match match;
  for (const Route& route : routes_) {
    std::optional<Parameters> parameters = Matches(route.pattern, segments);
    if (!parameters) continue;
    if (match.allow.find(route.method) == std::string::npos) {
      AppendMethod(match.allow, route.method);
      if (route.method == "GET") AppendMethod(match.allow, "HEAD");
    }
    if (route.method == method || (method == "HEAD" && route.method == "GET")) {
      match.route = &route;
      match.parameters = *std::move(parameters);
      break;
    }
  }
  if (!match.allow.empty()) AppendMethod(match.allow, "OPTIONS");
  return match;
}

}  // namespace hadal
