#include "api/api_error.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "http/message.h"

namespace hadal::api {
namespace {

ErrorKind KindOf(int status) {
  if (status == 404) return ErrorKind::kNotFound;
  if (status == 503) return ErrorKind::kResource;
  return status < 500 ? ErrorKind::kInvalid : ErrorKind::kIo;
}

std::string_view TypeOf(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

OrderedJson OrNull(const std::string& text) {
  return text.empty() ? OrderedJson(nullptr) : OrderedJson(text);
}

// OpenAI's sentence, which agents look for, and its numbers for programs.
ApiError ContextError(const ErrorDetails::ContextOverflow& overflow) {
  ApiError error(400,
                 fmt::format("This model's maximum context length is {} tokens. However, you "
                             "requested {} tokens ({} in the messages, {} in the completion). "
                             "Please reduce the length of the messages or completion.",
                             overflow.capacity, overflow.prompt_tokens + overflow.max_tokens,
                             overflow.prompt_tokens, overflow.max_tokens),
                 overflow.prompt_tokens < overflow.capacity ? "max_tokens" : "messages",
                 "context_length_exceeded");
  error.extra = {{"n_ctx", overflow.capacity},
                 {"n_prompt_tokens", overflow.prompt_tokens},
                 {"n_completion_tokens", overflow.max_tokens}};
  return error;
}

}  // namespace

ApiError::ApiError(int status, std::string message, std::string param, std::string code)
    : Error(KindOf(status), std::move(message)),
      status_(status),
      param_(std::move(param)),
      code_(std::move(code)) {}

ApiError ToApiError(const Error& error) {
  if (const auto* api_error = dynamic_cast<const ApiError*>(&error)) return *api_error;
  if (error.details().context_overflow) return ContextError(*error.details().context_overflow);
  ApiError result(StatusOf(error.kind()), error.message(), {}, std::string(error.details().code));
  if (const auto seconds = error.details().retry_after_seconds) {
    result.retry_after = static_cast<uint32_t>(std::ceil(std::clamp(*seconds, 1.0, 120.0)));
  }
  return result;
}

OrderedJson ErrorBody(const ApiError& error) {
  OrderedJson inner = {{"message", error.message()},
                       {"type", TypeOf(error.status())},
                       {"param", OrNull(error.param())},
                       {"code", OrNull(error.code())}};
  inner.update(error.extra);
  return {{"error", std::move(inner)}};
}

std::string Dump(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace hadal::api
