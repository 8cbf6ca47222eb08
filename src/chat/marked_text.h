// Text that remembers which of its bytes were written by users.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/byte_range.h"

namespace hadal {

// Bytes inside `data_ranges` came from data (messages, tools, variables of the request); all others
// were written by the template's author or are special tokens of the model. Only the latter may
// form control tokens. The ranges are sorted, not empty, and never touch each other.
struct MarkedText {
  std::string text;
  std::vector<ByteRange> data_ranges;

  size_t size() const { return text.size(); }
  bool empty() const { return text.empty(); }
  bool HasData() const { return !data_ranges.empty(); }
  // Whether the byte at `pos` is data. O(log ranges).
  bool IsData(size_t pos) const;

  void Append(std::string_view bytes, bool data);
  void Append(const MarkedText& other) { Append(other, 0, other.size()); }
  // Appends bytes [begin, end) of `other` with their marks; `other` must not be *this.
  void Append(const MarkedText& other, size_t begin, size_t end);
};

}  // namespace hadal
