#include "model/blocks/heads.h"

namespace hadal {

Tensor LogitsHead(const BlockContext& context, const ModelWeights& weights,
                  std::span<const uint32_t> rows) {
  Backend& backend = context.backend;
  const Activations& a = context.a;
  const uint32_t n_layers = context.spec.n_layers;

  backend.RmsNorm(a.x, a.delta, *weights.norm, context.spec.norm_eps, a.normed);
  if (context.taps != nullptr && context.taps->hidden) {
    context.taps->hidden(n_layers, a.x);
    context.taps->hidden(n_layers + 1, a.normed);
  }
  context.Observe(n_layers, "final norm", a.normed);
  if (rows.empty()) return a.logits;

  backend.GatherRows(a.normed, rows, a.logit_x);
  if (weights.head.weight != nullptr) {
    backend.Linear(a.logit_x, weights.head.To(a.logits));
  } else {
    backend.Linear(a.logit_x, {weights.embed.get(), nullptr, a.logits});
  }
  context.Observe(n_layers, "logits", a.logits);
  return a.logits;
}

}  // namespace hadal
