// An entry of the kernel table: a function that counts its calls (OpCounters in backend/backend.h).
#pragma once

#include "base/work_counters.h"

namespace hadal {

// Beside the call, adds what BytesMoved(args...) says, where there is one for these arguments.
template <typename Signature>
class Kernel;

template <typename... Args>
class Kernel<void(Args...)> {
 public:
  constexpr Kernel() = default;
  constexpr Kernel(void (*function)(Args...)) : function_(function) {}  // NOLINT: table entries

  explicit operator bool() const { return function_ != nullptr; }

  void operator()(Args... args) const {
    ++thread_work.kernel_calls;
    if constexpr (requires { BytesMoved(args...); }) thread_work.bytes += BytesMoved(args...);
    function_(args...);
  }

 private:
  void (*function_)(Args...) = nullptr;
};

}  // namespace hadal
