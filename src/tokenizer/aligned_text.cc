#include "tokenizer/aligned_text.h"

#include <algorithm>

#include "base/error.h"

namespace hadal {

ByteRange AlignedText::Origin(size_t begin, size_t end) const {
  if (!changed_) return {offset_ + begin, offset_ + end};
  if (origins_.empty()) return {offset_, offset_};
  if (begin >= end) {
    const size_t at = begin < origins_.size() ? origins_[begin].begin : origins_.back().end;
    return {at, at};
  }
  size_t last = origins_[begin].end;
  size_t first = origins_[begin].begin;
  // A rewrite never reorders, so the ends bound the range; only insertions can be shorter.
  last = std::max<size_t>(last, origins_[end - 1].end);
  first = std::min<size_t>(first, origins_[end - 1].begin);
  return {first, last};
}

AlignedText AlignedText::Slice(size_t begin, size_t end) const {
  if (!changed_) return AlignedText(view_.substr(begin, end - begin), offset_ + begin);
  AlignedText slice;
  slice.changed_ = true;
  slice.offset_ = static_cast<uint32_t>(Origin(begin, begin).begin);
  slice.owned_ = owned_.substr(begin, end - begin);
  slice.origins_.assign(origins_.begin() + static_cast<std::ptrdiff_t>(begin),
                        origins_.begin() + static_cast<std::ptrdiff_t>(end));
  return slice;
}

TextBuilder::TextBuilder(const AlignedText& source) : source_(source) {
  result_.changed_ = true;
  result_.offset_ = source.offset_;
  const size_t expected = source.text().size() + 16;
  result_.owned_.reserve(expected);
  result_.origins_.reserve(expected);
}

void TextBuilder::Copy(size_t begin, size_t end) {
  result_.owned_.append(source_.text().substr(begin, end - begin));
  if (source_.changed_) {
    result_.origins_.insert(result_.origins_.end(),
                            source_.origins_.begin() + static_cast<std::ptrdiff_t>(begin),
                            source_.origins_.begin() + static_cast<std::ptrdiff_t>(end));
    return;
  }
  for (size_t i = begin; i < end; ++i) {
    const auto at = static_cast<uint32_t>(source_.offset_ + i);
    result_.origins_.push_back({at, at + 1});
  }
}

void TextBuilder::Put(std::string_view text, size_t begin, size_t end) {
  if (result_.owned_.size() + text.size() > UINT32_MAX) {
    Fail(ErrorKind::kInvalid, "the text grows beyond 4 GiB when it is normalised");
  }
  const ByteRange origin = source_.Origin(begin, end);
  const Span span = {static_cast<uint32_t>(origin.begin), static_cast<uint32_t>(origin.end)};
  result_.owned_.append(text);
  result_.origins_.insert(result_.origins_.end(), text.size(), span);
}

AlignedText TextBuilder::Finish() && {
  return std::move(result_);
}

}  // namespace hadal
