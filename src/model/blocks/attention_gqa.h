// Grouped-query attention (multi-head when every head has its own k and v).
#pragma once

#include "model/blocks/block.h"
#include "model/weights.h"

namespace hadal {

// q, k, v = x W + b; with qk_norm each head of q and k is normed; RoPE on q and k; k and v go to
// the cache; attention over what the layer's window shows; output projection.
// x, out: [n, hidden].
void AttentionGqa(const BlockContext& context, const GqaWeights& weights, uint32_t layer, Tensor x,
                  Tensor out);

}  // namespace hadal
