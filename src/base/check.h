// CHECKs are for our own bugs: they print where and why, and abort. Never use one on input.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace hadal::internal {

[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: internal error, please report: CHECK(%s) failed\n", file, line,
               condition);
  std::abort();
}

}  // namespace hadal::internal

#define HADAL_CHECK(condition)        \
  (__builtin_expect(!!(condition), 1) \
       ? static_cast<void>(0)         \
       : ::hadal::internal::CheckFailed(__FILE__, __LINE__, #condition))
