#include "model/blocks/attention_gqa.h"

namespace hadal {

void AttentionGqa(const BlockContext& context, const GqaWeights& weights, uint32_t layer, Tensor x,
                  Tensor out) {
  const AttentionSpec& spec = context.spec.attention;
  Backend& backend = context.backend;
  const Activations& a = context.a;

  const LinearArgs projections[] = {weights.q.To(a.q), weights.k.To(a.k), weights.v.To(a.v)};
  backend.LinearGroup(x, projections);
  context.Observe(layer, "queries", a.q);
  context.Observe(layer, "keys", a.k);
  context.Observe(layer, "values", a.v);

  if (spec.qk_norm) {
    const Tensor q = PerHead(a.q, spec.head_dim);
    const Tensor k = PerHead(a.k, spec.head_dim);
    backend.RmsNorm(q, {}, *weights.q_norm, context.spec.norm_eps, q);
    backend.RmsNorm(k, {}, *weights.k_norm, context.spec.norm_eps, k);
    context.Observe(layer, "normed queries", a.q);
    context.Observe(layer, "normed keys", a.k);
  }

  backend.RopeAndStore({.q = a.q,
                        .k = a.k,
                        .v = a.v,
                        .q_heads = spec.n_heads,
                        .q_head_dim = spec.head_dim,
                        .kv_heads = spec.n_kv_heads,
                        .k_head_dim = spec.head_dim,
                        .v_head_dim = spec.head_dim,
                        .rope_dim = context.spec.rope.dim,
                        .rope_layout = context.spec.rope.layout,
                        .cos = a.cos,
                        .sin = a.sin,
                        .layer = layer});
  backend.AttentionGqa({.q = a.q,
                        .out = a.attended,
                        .heads = spec.n_heads,
                        .kv_heads = spec.n_kv_heads,
                        .head_dim = spec.head_dim,
                        .scale = spec.softmax_scale,
                        .window = context.spec.layers[layer].window,
                        .layer = layer});
  context.Observe(layer, "attention", a.attended);
  backend.Linear(a.attended, weights.o.To(out));
  context.Observe(layer, "attention output", out);
}

}  // namespace hadal
