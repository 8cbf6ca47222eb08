// Binary search over what can be chosen.
#pragma once

#include <cstdint>

namespace hadal {

// The largest value in [low, high] for which `fits` holds. It holds for `low`, and beyond the first
// value that it does not hold for, for none.
template <typename Fits>
uint64_t Largest(uint64_t low, uint64_t high, const Fits& fits) {
  while (low < high) {
    const uint64_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace hadal
