#include "model/mla_projection.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "quant/blocks.h"

namespace hadal {
namespace {

OwnedTensor Own(TensorView shape, std::string name, std::vector<float> data) {
  OwnedTensor tensor{std::move(data), std::move(shape)};
  tensor.view.name = std::move(name);
  tensor.view.data = std::as_bytes(std::span(tensor.data));
  return tensor;
}

TensorView F32Shape(std::vector<uint64_t> shape) {
  TensorView view;
  view.dtype = DType::kF32;
  view.shape = std::move(shape);
  return view;
}

// Dequantizes all of kv_b.
std::vector<float> Whole(const AttentionSpec& attention, const TensorView& kv_b) {
  HADAL_CHECK(kv_b.cols() == attention.kv_lora_rank);
  HADAL_CHECK(kv_b.rows() ==
              uint64_t{attention.n_heads} * (attention.qk_nope_head_dim + attention.v_head_dim));
  std::vector<float> values(kv_b.elements());
  DequantizeRows(kv_b, 0, kv_b.rows(), values);
  return values;
}

}  // namespace

WeightPolicy MlaProjectionPolicy(WeightPolicy policy) {
  return policy == WeightPolicy::kF32 ? WeightPolicy::kF32 : WeightPolicy::kBf16;
}

TensorView KUpShape(const AttentionSpec& attention) {
  return F32Shape({attention.n_heads, attention.kv_lora_rank, attention.qk_nope_head_dim});
}

TensorView VUpShape(const AttentionSpec& attention) {
  return F32Shape({attention.n_heads, attention.v_head_dim, attention.kv_lora_rank});
}

OwnedTensor KUpFromKvB(const AttentionSpec& attention, const TensorView& kv_b) {
  const std::vector<float> whole = Whole(attention, kv_b);
  const uint64_t lora = attention.kv_lora_rank;
  const uint64_t nope = attention.qk_nope_head_dim;
  std::vector<float> k_up(attention.n_heads * lora * nope);
  for (uint64_t head = 0; head < attention.n_heads; ++head) {
    const float* from = whole.data() + head * (nope + attention.v_head_dim) * lora;
    float* to = k_up.data() + head * lora * nope;
    for (uint64_t i = 0; i < nope; ++i) {
      for (uint64_t l = 0; l < lora; ++l) to[l * nope + i] = from[i * lora + l];
    }
  }
  return Own(KUpShape(attention), kv_b.name, std::move(k_up));
}

OwnedTensor VUpFromKvB(const AttentionSpec& attention, const TensorView& kv_b) {
  const std::vector<float> whole = Whole(attention, kv_b);
  const uint64_t lora = attention.kv_lora_rank;
  const uint64_t nope = attention.qk_nope_head_dim;
  const uint64_t v = attention.v_head_dim;
  std::vector<float> v_up(attention.n_heads * v * lora);
  for (uint64_t head = 0; head < attention.n_heads; ++head) {
    std::copy_n(whole.data() + (head * (nope + v) + nope) * lora, v * lora,
                v_up.data() + head * v * lora);
  }
  return Own(VUpShape(attention), kv_b.name, std::move(v_up));
}

OwnedTensor DequantizedCopy(const TensorView& view) {
  std::vector<float> values(view.elements());
  DequantizeRows(view, 0, view.rows(), values);
  return Own(F32Shape(view.shape), view.name, std::move(values));
}

}  // namespace hadal
