// The one exception type for what the outside world causes: a file, a request, an option, a device.
// Thrown at the cause, caught only at the edges (a command, an HTTP handler, a step boundary).
// Our own bugs are not errors: see check.h.
#pragma once

#include <fmt/core.h>

#include <exception>
#include <string>
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

// `message` says what is wrong, where, and what to do: it is shown to the user as it is.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorKind kind_;
  std::string message_;
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
    throw Error(error.kind(), context + ": " + error.message());
  }
}

}  // namespace hadal
