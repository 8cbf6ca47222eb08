// The gated feed-forward network: down(silu(gate x) * up x).
#pragma once

#include "model/blocks/block.h"
#include "model/weights.h"

namespace hadal {

// x, out: [n, hidden]. The width is that of the weights.
void FeedForward(const BlockContext& context, const FfnWeights& weights, uint32_t layer, Tensor x,
                 Tensor out);

}  // namespace hadal
