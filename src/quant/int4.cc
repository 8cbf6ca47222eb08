#include "quant/int4.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/error.h"
#include "quant/blocks_internal.h"

namespace hadal {
namespace {

// Where AWQ puts output row 8j + i: the inverse of {0,2,4,6,1,3,5,7}.
constexpr int kAwqNibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};

// `add`: to the whole word first.
uint8_t Nibble(std::span<const std::byte> words, uint64_t word, int nibble, uint32_t add = 0) {
  return (quant_internal::Load<uint32_t>(words.data() + word * 4) + add) >> (4 * nibble) & 15;
}

}  // namespace

Int4Reader::Int4Reader(const TensorView& view)
    : view_(view),
      rows_(view.rows()),
      groups_((view.cols() + view.group_size - 1) / view.group_size),
      awq_(view.dtype == DType::kAwq4) {
  HADAL_CHECK(awq_ || view.dtype == DType::kGptq4);
}

uint8_t Int4Reader::Code(uint64_t row, uint64_t col) const {
  return awq_ ? Nibble(view_.data, col * (rows_ / 8) + row / 8, kAwqNibble[row % 8])
              : Nibble(view_.data, col / 8 * rows_ + row, static_cast<int>(col % 8));
}

uint8_t Int4Reader::Zero(uint64_t row, uint64_t group) const {
  const int nibble = awq_ ? kAwqNibble[row % 8] : static_cast<int>(row % 8);
  // A zero point of 0 made the writer borrow from the next nibble: undone in whole words.
  return Nibble(view_.zeros, group * (rows_ / 8) + row / 8, nibble,
                view_.zeros_minus_one ? 0x11111111u : 0);
}

float Int4Reader::Scale(uint64_t row, uint64_t group) const {
  return F16ToF32(
      quant_internal::Load<uint16_t>(view_.group_scales.data() + (group * rows_ + row) * 2));
}

uint64_t Int4Reader::GroupOf(uint64_t col) const {
  if (view_.group_index.empty()) return col / view_.group_size;
  const auto group = quant_internal::Load<uint32_t>(view_.group_index.data() + col * 4);
  if (group >= groups_) {
    Fail(ErrorKind::kBadFile, "tensor '{}': g_idx of column {} is {}, but there are {} groups",
         view_.name, col, static_cast<int32_t>(group), groups_);
  }
  return group;
}

std::vector<uint32_t> ColumnOrder(const TensorView& view) {
  const Int4Reader reader(view);
  const uint64_t cols = view.cols();
  HADAL_CHECK(cols <= std::numeric_limits<uint32_t>::max());
  std::vector<uint64_t> sizes(reader.groups());
  for (uint64_t c = 0; c < cols; ++c) ++sizes[reader.GroupOf(c)];
  for (uint64_t g = 0; g < sizes.size(); ++g) {
    const uint64_t want = std::min<uint64_t>(view.group_size, cols - g * view.group_size);
    if (sizes[g] != want) {
      Fail(ErrorKind::kBadFile, "tensor '{}': g_idx gives group {} {} columns instead of {}",
           view.name, g, sizes[g], want);
    }
  }
  std::vector<uint32_t> order(cols);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return reader.GroupOf(a) < reader.GroupOf(b); });
  return order;
}

}  // namespace hadal
