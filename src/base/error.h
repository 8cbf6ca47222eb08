// The one exception type for what the outside world causes: a file, a request, an option, a device.
// Thrown at the cause, caught only at the edges (a command, an HTTP handler, a step boundary).
// Our own bugs are not errors: see check.h.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace hadal {

enum class ErrorKind {
  kUsage,        // wrong option or argument                 -> exit code 2
  kInvalid,      // a request or text that cannot be served  -> HTTP 400
  kNotFound,     // no such file, model, tensor              -> HTTP 404
  kBadFile,      // a file is corrupt or contradicts itself
  kUnsupported,  // well-formed, but a feature we do not have
  kResource,     // memory, disk, descriptors                -> HTTP 503
  kNumeric,      // non-finite values met while computing
  kCancelled,    // the caller asked to stop
  kIo,           // the operating system refused a read or a write
};

// What a program, rather than a person, needs to act on a refusal. What does not apply is absent.
struct ErrorDetails {
  std::string_view code;                      // a stable word for the cause, a literal
  std::optional<double> retry_after_seconds;  // kResource: when another try may succeed
  struct ContextOverflow {
    uint64_t prompt_tokens = 0;
    uint64_t max_tokens = 0;
    uint64_t capacity = 0;   // for both together
    bool of_memory = false;  // the KV memory ends before the model's context does
  };
  std::optional<ContextOverflow> context_overflow;  // kInvalid
};

// `message` says what is wrong, where, and what to do: it is shown to the user as it is.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message, ErrorDetails details = {})
      : kind_(kind), message_(std::move(message)), details_(details) {}

  ErrorKind kind() const { return kind_; }
  const ErrorDetails& details() const { return details_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorKind kind_;
  std::string message_;
  ErrorDetails details_;
};

template <typename... Args>
[[noreturn]] void Fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

// Runs `body`; an Error that leaves it gets "`context`: " put before its message.
template <typename Body>
auto WithContext(const std::string& context, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error(error.kind(), context + ": " + error.message(), error.details());
  }
}

}  // namespace hadal
