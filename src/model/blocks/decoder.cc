#include "model/blocks/decoder.h"

#include "model/blocks/attention_gqa.h"
#include "model/blocks/attention_mla.h"
#include "model/blocks/ffn.h"
#include "model/blocks/moe.h"

namespace hadal {

void DecoderLayer(const BlockContext& context, const LayerWeights& weights, uint32_t layer,
                  Tensor pending) {
  const Activations& a = context.a;
  const float eps = context.spec.norm_eps;

  context.backend.RmsNorm(a.x, pending, *weights.attn_norm, eps, a.normed);
  if (context.taps != nullptr && context.taps->hidden) context.taps->hidden(layer, a.x);
  context.Observe(layer, "attention norm", a.normed);
  if (weights.gqa) {
    AttentionGqa(context, *weights.gqa, layer, a.normed, a.delta);
  } else {
    AttentionMla(context, *weights.mla, layer, a.normed, a.delta);
  }

  context.backend.RmsNorm(a.x, a.delta, *weights.ffn_norm, eps, a.normed);
  context.Observe(layer, "feed-forward norm", a.normed);
  if (weights.moe) {
    MixtureOfExperts(context, *weights.moe, layer, a.normed, a.delta);
  } else {
    FeedForward(context, *weights.ffn, layer, a.normed, a.delta);
  }
}

}  // namespace hadal
