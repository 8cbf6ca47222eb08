#include "model/blocks/ffn.h"

namespace hadal {

void FeedForward(const BlockContext& context, const FfnWeights& weights, uint32_t layer, Tensor x,
                 Tensor out) {
  const auto width = static_cast<uint32_t>(weights.gate.weight->rows());
  const Tensor gate(context.a.gate.data, x.rows, width);
  const Tensor up(context.a.up.data, x.rows, width);

  const LinearArgs projections[] = {weights.gate.To(gate), weights.up.To(up)};
  context.backend.LinearGroup(x, projections);
  context.Observe(layer, "feed-forward gate", gate);
  context.Observe(layer, "feed-forward up", up);
  context.backend.Glu(gate, up, gate);
  context.Observe(layer, "feed-forward activation", gate);
  context.backend.Linear(gate, weights.down.To(out));
  context.Observe(layer, "feed-forward output", out);
}

}  // namespace hadal
