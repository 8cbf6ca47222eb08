#include "model/blocks/attention_mla.h"

namespace hadal {
namespace {

// a.q and the unrotated [latent, k_rope] in a.k.
void Project(const BlockContext& context, const MlaWeights& weights, uint32_t layer, Tensor x) {
  const AttentionSpec& spec = context.spec.attention;
  Backend& backend = context.backend;
  const Activations& a = context.a;
  const float eps = context.spec.norm_eps;

  if (spec.q_lora_rank == 0) {
    const LinearArgs projections[] = {weights.q.To(a.q), weights.kv_a.To(a.k)};
    backend.LinearGroup(x, projections);
  } else {
    const LinearArgs projections[] = {weights.q_a.To(a.q_a), weights.kv_a.To(a.k)};
    backend.LinearGroup(x, projections);
    context.Observe(layer, "query latent", a.q_a);
    backend.RmsNorm(a.q_a, {}, *weights.q_a_norm, eps, a.q_a);
    backend.Linear(a.q_a, weights.q_b.To(a.q));
  }
  context.Observe(layer, "queries", a.q);
  context.Observe(layer, "key-value latent", a.k);
  const Tensor latent = FirstColumns(a.k, spec.kv_lora_rank);
  backend.RmsNorm(latent, {}, *weights.kv_a_norm, eps, latent);
  context.Observe(layer, "normed key-value latent", a.k);
}

}  // namespace

void AttentionMla(const BlockContext& context, const MlaWeights& weights, uint32_t layer, Tensor x,
                  Tensor out) {
  const AttentionSpec& spec = context.spec.attention;
  Backend& backend = context.backend;
  const Activations& a = context.a;

  Project(context, weights, layer, x);
  backend.RopeAndStore({.q = a.q,
                        .k = a.k,
                        .v = {},
                        .q_heads = spec.n_heads,
                        .q_head_dim = spec.head_dim,
                        .q_rope_offset = spec.qk_nope_head_dim,
                        .kv_heads = 1,
                        .k_head_dim = spec.kv_lora_rank + spec.qk_rope_head_dim,
                        .k_rope_offset = spec.kv_lora_rank,
                        .v_head_dim = 0,
                        .rope_dim = spec.qk_rope_head_dim,
                        .rope_layout = context.spec.rope.layout,
                        .cos = a.cos,
                        .sin = a.sin,
                        .layer = layer});
  backend.AttentionMla({.q = a.q,
                        .out = a.attended,
                        .k_up = weights.k_up.get(),
                        .v_up = weights.v_up.get(),
                        .heads = spec.n_heads,
                        .kv_lora = spec.kv_lora_rank,
                        .nope = spec.qk_nope_head_dim,
                        .rope = spec.qk_rope_head_dim,
                        .v_head_dim = spec.v_head_dim,
                        .scale = spec.softmax_scale,
                        .window = context.spec.layers[layer].window,
                        .layer = layer});
  context.Observe(layer, "attention", a.attended);
  backend.Linear(a.attended, weights.o.To(out));
  context.Observe(layer, "attention output", out);
}

}  // namespace hadal
