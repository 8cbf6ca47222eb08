// AWQ and GPTQ int4 matrices (parts and shapes: tensor/tensor_view.h).
//
// Both pack eight 4-bit integers into an int32. Logical weight [out, in], groups of `group_size`
// input columns: value(r, c) = scale(group, r) * (q(r, c) - zero(group, r)).
//   AWQ   packs 8 output rows; the nibble at bits 4i is row 8j + {0,2,4,6,1,3,5,7}[i]; zeros alike.
//   GPTQ  packs 8 input columns into one word of qweight and 8 output rows into one of zeros, both
//         in plain order. Version 1 stores words of zeros less 0x11111111 (zeros_minus_one): zero -
//         1 in each nibble, with a borrow from the next where zero is 0, as GPTQModel writes and
//         reads. group_index, when present, names each column's group ("desc_act").
#pragma once

#include <cstdint>
#include <vector>

#include "quant/blocks.h"

namespace hadal {

// Random access to the integers and scales of one int4 view, whose parts must have passed
// CheckTensorParts. Does not own the data. Thread-safe.
class Int4Reader {
 public:
  explicit Int4Reader(const TensorView& view);

  uint64_t groups() const { return groups_; }

  // The unsigned 4-bit integer at [row, col].
  uint8_t Code(uint64_t row, uint64_t col) const;

  // Zero point and scale of a group of one row.
  uint8_t Zero(uint64_t row, uint64_t group) const;
  float Scale(uint64_t row, uint64_t group) const;

  // The group of a column. Throws Error(kBadFile) where group_index leaves the range.
  uint64_t GroupOf(uint64_t col) const;

 private:
  const TensorView& view_;
  uint64_t rows_;
  uint64_t groups_;
  bool awq_;
};

// The order of columns that makes the groups of a GPTQ matrix with group_index contiguous: stable,
// by group. Every group but the last must have exactly group_size columns, else Error(kBadFile).
std::vector<uint32_t> ColumnOrder(const TensorView& view);

}  // namespace hadal
