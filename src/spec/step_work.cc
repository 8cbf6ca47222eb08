#include "spec/step_work.h"

namespace hadal {
namespace {

uint64_t ProjectionWeights(const ModelSpec& spec) {
  const AttentionSpec& a = spec.attention;
  const uint64_t hidden = spec.hidden;
  const uint64_t q_width = uint64_t{a.n_heads} * a.head_dim;
  if (a.kind == AttentionKind::kGqa) {
    return hidden * (2 * q_width + 2 * uint64_t{a.n_kv_heads} * a.head_dim);
  }
  const uint64_t query = a.q_lora_rank == 0 ? hidden * q_width : a.q_lora_rank * (hidden + q_width);
  const uint64_t latent = hidden * (a.kv_lora_rank + a.qk_rope_head_dim);
  const uint64_t absorbed =
      uint64_t{a.n_heads} * a.kv_lora_rank * (a.qk_nope_head_dim + a.v_head_dim);
  const uint64_t output = uint64_t{a.n_heads} * a.v_head_dim * hidden;
  return query + latent + absorbed + output;
}

uint64_t FeedForwardWeights(const ModelSpec& spec, const LayerSpec& layer) {
  const uint64_t hidden = spec.hidden;
  if (!layer.moe) return 3 * hidden * spec.intermediate;
  const MoeSpec& moe = *spec.moe;
  return hidden * moe.n_experts +
         3 * hidden * (uint64_t{moe.n_used} * moe.intermediate + moe.shared_intermediate);
}

}  // namespace

TokenWork CountTokenWork(const ModelSpec& spec) {
  const AttentionSpec& a = spec.attention;
  TokenWork work;
  for (const LayerSpec& layer : spec.layers) {
    work.layers += 2 * (ProjectionWeights(spec) + FeedForwardWeights(spec, layer));
    if (layer.window != 0) continue;
    const uint64_t scores = a.kind == AttentionKind::kMla
                                ? uint64_t{2} * a.kv_lora_rank + a.qk_rope_head_dim
                                : uint64_t{2} * a.head_dim;
    work.per_context += 2 * a.n_heads * scores;
  }
  work.head = uint64_t{2} * spec.hidden * spec.vocab;
  return work;
}

}  // namespace hadal
