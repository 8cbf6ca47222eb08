// Errors as clients see them: an HTTP status and OpenAI's error body.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/json.h"

namespace hadal::api {

// A request that is refused, with what a program needs to react.
class ApiError : public Error {
 public:
  // `param`: the field at fault ("messages[2].role"), `code`: a stable word; empty: null.
  ApiError(int status, std::string message, std::string param = {}, std::string code = {});

  int status() const { return status_; }
  const std::string& param() const { return param_; }
  const std::string& code() const { return code_; }

  // Further members of the error object, in their order.
  OrderedJson extra = OrderedJson::object();
  // The Retry-After header, in whole seconds.
  std::optional<uint32_t> retry_after;

 private:
  int status_;
  std::string param_;
  std::string code_;
};

// The same for an error that came from below: invalid -> 400, not found -> 404, resources -> 503,
// anything else -> 500. An ApiError stays what it is.
ApiError ToApiError(const Error& error);

// {"error": {"message", "type", "param", "code", ...extra}}; `type` follows from the status.
OrderedJson ErrorBody(const ApiError& error);

// Compact JSON; bytes that are not UTF-8 become U+FFFD, so that no text can break a reply.
std::string Dump(const OrderedJson& json);

}  // namespace hadal::api
