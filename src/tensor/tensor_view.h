// A named, non-owning view of tensor bytes as they lie in a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace hadal {

// Row-major, outermost dimension first: a linear layer's weight is [out_features, in_features].
// Copying a view is cheap and does not copy the data. The owner (a Checkpoint) must outlive it.
struct TensorView {
  std::string name;  // as in the file, for messages
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;
  std::span<const std::byte> data;

  // Only for kF8E4M3 weights: f32 [ceil(rows/scale_block), ceil(cols/scale_block)], value =
  // fp8 * scale (DeepSeek-V3's weight_scale_inv).
  std::span<const std::byte> scales;
  uint32_t scale_block = 0;

  // Only for kAwq4 and kGptq4. The view's shape is the logical one, [out, in].
  //   AWQ:  data int32 [in, out/8],  zeros int32 [in/group, out/8],  group_scales f16 [in/group,
  //   out] GPTQ: data int32 [in/8, out],  zeros int32 [in/group, out/8],  group_scales f16
  //   [in/group, out],
  //         group_index int32 [in] (empty when the columns are in order)
  std::span<const std::byte> zeros;
  std::span<const std::byte> group_scales;
  std::span<const std::byte> group_index;
  uint32_t group_size = 0;
  bool zeros_minus_one = false;  // GPTQ v1 stores zero points less one

  uint64_t elements() const {
    uint64_t n = 1;
    for (const uint64_t dim : shape) n *= dim;
    return n;
  }
  // A matrix seen as [rows, cols]: a vector is one row.
  uint64_t cols() const { return shape.empty() ? 1 : shape.back(); }
  uint64_t rows() const { return cols() == 0 ? 0 : elements() / cols(); }
  bool empty() const { return data.empty(); }
  // All bytes the tensor takes in its file, scales and zero points included.
  uint64_t file_bytes() const {
    return data.size() + scales.size() + zeros.size() + group_scales.size() + group_index.size();
  }
};

}  // namespace hadal
