// A half-open range of bytes in a text.
#pragma once

#include <cstddef>

namespace hadal {

struct ByteRange {
  size_t begin = 0;
  size_t end = 0;

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

}  // namespace hadal
