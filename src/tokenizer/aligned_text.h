// Text under normalisation that remembers, byte by byte, where in the input it came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/byte_range.h"

namespace hadal {

// The same for parts of one tokenizer run, whose texts are below 4 GiB.
struct Span {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t size() const { return end - begin; }
};

// A slice of the input, as it was or rewritten. While it is as it was, it is a view: the input must
// outlive it.
class AlignedText {
 public:
  AlignedText() = default;
  // `part` stands at byte `offset` of the input.
  AlignedText(std::string_view part, size_t offset)
      : view_(part), offset_(static_cast<uint32_t>(offset)) {}

  std::string_view text() const { return changed_ ? std::string_view(owned_) : view_; }

  // text()[begin, end) on its own.
  AlignedText Slice(size_t begin, size_t end) const;

  // The input bytes that text()[begin, end) came from: empty, but placed, for inserted text.
  ByteRange Origin(size_t begin, size_t end) const;

 private:
  friend class TextBuilder;

  std::string_view view_;
  uint32_t offset_ = 0;
  bool changed_ = false;
  std::string owned_;
  std::vector<Span> origins_;  // one per byte of owned_
};

// Writes a new version of `source`, front to back.
class TextBuilder {
 public:
  explicit TextBuilder(const AlignedText& source);

  // Takes source bytes [begin, end) unchanged.
  void Copy(size_t begin, size_t end);
  // Writes `text`, all of which comes from source bytes [begin, end) (empty: an insertion there).
  void Put(std::string_view text, size_t begin, size_t end);

  size_t size() const { return result_.owned_.size(); }
  AlignedText Finish() &&;

 private:
  const AlignedText& source_;
  AlignedText result_;
};

}  // namespace hadal
