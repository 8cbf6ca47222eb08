// A model's weights on the device, by role. Null where the architecture has none.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backend/backend.h"

namespace hadal {

struct LinearWeights {
  std::unique_ptr<Weight> weight;  // [out, in]
  std::unique_ptr<Weight> bias;    // [out] or null

  LinearArgs To(Tensor out) const { return {weight.get(), bias.get(), out}; }
};

struct GqaWeights {
  LinearWeights q, k, v, o;
  std::unique_ptr<Weight> q_norm, k_norm;  // [head_dim], with qk_norm
};

struct MlaWeights {
  LinearWeights q;         // [heads * (nope + rope), hidden], without q_lora_rank
  LinearWeights q_a, q_b;  // [q_lora, hidden], [heads * (nope + rope), q_lora]
  std::unique_ptr<Weight> q_a_norm;
  LinearWeights kv_a;  // [kv_lora + rope, hidden]
  std::unique_ptr<Weight> kv_a_norm;
  std::unique_ptr<Weight> k_up;  // [heads * kv_lora, nope]
  std::unique_ptr<Weight> v_up;  // [heads * v_head_dim, kv_lora]
  LinearWeights o;
};

struct FfnWeights {
  LinearWeights gate, up, down;
};

struct MoeWeights {
  LinearWeights router;                 // [experts, hidden]
  std::unique_ptr<Weight> choice_bias;  // [experts]
  std::vector<ExpertWeights> experts;
  std::optional<FfnWeights> shared;
  LinearWeights shared_router;  // [1, hidden]
};

struct LayerWeights {
  std::unique_ptr<Weight> attn_norm, ffn_norm;  // [hidden]
  std::optional<GqaWeights> gqa;                // one of these two
  std::optional<MlaWeights> mla;
  std::optional<FfnWeights> ffn;  // one of these two
  std::optional<MoeWeights> moe;
};

struct ModelWeights {
  std::unique_ptr<Weight> embed;  // [vocab, hidden]
  std::vector<LayerWeights> layers;
  std::unique_ptr<Weight> norm;  // [hidden]
  LinearWeights head;            // [vocab, hidden]; null weight: tied, the embedding is used
};

}  // namespace hadal
