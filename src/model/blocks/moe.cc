#include "model/blocks/moe.h"

#include "model/blocks/ffn.h"

namespace hadal {

void MixtureOfExperts(const BlockContext& context, const MoeWeights& weights, uint32_t layer,
                      Tensor x, Tensor out) {
  Backend& backend = context.backend;
  const Activations& a = context.a;

  backend.Linear(x, weights.router.To(a.router_logits));
  context.Observe(layer, "router logits", a.router_logits);
  backend.MoeRoute(a.router_logits, *context.spec.moe, weights.choice_bias.get(), a.routing);
  if (context.taps != nullptr && context.taps->routing) {
    context.taps->routing(layer, x.rows, a.routing);
  }
  backend.MoeFfn(x, weights.experts, a.routing, out);
  context.Observe(layer, "experts' output", out);

  if (!weights.shared) return;
  FeedForward(context, *weights.shared, layer, x, a.shared);
  Tensor gate;
  if (weights.shared_router.weight != nullptr) {
    gate = a.shared_gate;
    backend.Linear(x, weights.shared_router.To(gate));
  }
  backend.AddScaled(out, a.shared, gate);
}

}  // namespace hadal
