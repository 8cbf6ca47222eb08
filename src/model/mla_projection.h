// MLA's up-projection of the latent, in the two pieces that absorbed attention uses.
//
// Files hold it whole, kv_b [heads * (nope + v), kv_lora] with each head's k rows before its v
// rows, or split. The device gets k_up [heads, kv_lora, nope] (k's part transposed) and
// v_up [heads, v, kv_lora].
#pragma once

#include <vector>

#include "quant/weight_policy.h"
#include "spec/model_spec.h"
#include "tensor/tensor_view.h"

namespace hadal {

// An f32 tensor that owns its data; `view` points into it. Move-only use: the data does not move.
struct OwnedTensor {
  std::vector<float> data;
  TensorView view;
};

// f32 for exact loading, else bf16: the stacks are small and read by attention, which has no
// integer form of them.
WeightPolicy MlaProjectionPolicy(WeightPolicy policy);

// Views without data, for counting bytes.
TensorView KUpShape(const AttentionSpec& attention);
TensorView VUpShape(const AttentionSpec& attention);

// From the whole form. Throw as DequantizeRows does.
OwnedTensor KUpFromKvB(const AttentionSpec& attention, const TensorView& kv_b);
OwnedTensor VUpFromKvB(const AttentionSpec& attention, const TensorView& kv_b);

// The split form, as f32.
OwnedTensor DequantizedCopy(const TensorView& view);

}  // namespace hadal
