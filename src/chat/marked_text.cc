#include "chat/marked_text.h"

#include <algorithm>

#include "base/check.h"

namespace hadal {
namespace {

// The first range that ends after `pos`.
auto FirstAfter(const std::vector<ByteRange>& ranges, size_t pos) {
  return std::upper_bound(ranges.begin(), ranges.end(), pos,
                          [](size_t p, const ByteRange& range) { return p < range.end; });
}

void AddRange(std::vector<ByteRange>& ranges, size_t begin, size_t end) {
  if (begin == end) return;
  if (!ranges.empty() && ranges.back().end == begin) {
    ranges.back().end = end;
  } else {
    ranges.push_back({begin, end});
  }
}

}  // namespace

bool MarkedText::IsData(size_t pos) const {
  const auto range = FirstAfter(data_ranges, pos);
  return range != data_ranges.end() && range->begin <= pos;
}

void MarkedText::Append(std::string_view bytes, bool data) {
  if (data) AddRange(data_ranges, text.size(), text.size() + bytes.size());
  text.append(bytes);
}

void MarkedText::Append(const MarkedText& other, size_t begin, size_t end) {
  HADAL_CHECK(&other != this && begin <= end && end <= other.size());
  const size_t base = text.size();
  for (auto range = FirstAfter(other.data_ranges, begin);
       range != other.data_ranges.end() && range->begin < end; ++range) {
    AddRange(data_ranges, base + std::max(range->begin, begin) - begin,
             base + std::min(range->end, end) - begin);
  }
  text.append(other.text, begin, end - begin);
}

}  // namespace hadal
