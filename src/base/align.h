// Whole parts of sizes.
#pragma once

#include <cstdint>

namespace hadal {

// The least multiple of `alignment` that holds `value`.
constexpr uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// How many parts of `b` hold `a`; does not overflow.
constexpr uint64_t CeilDiv(uint64_t a, uint64_t b) {
  return a / b + (a % b != 0);
}

}  // namespace hadal
