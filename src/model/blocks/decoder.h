// One decoder layer: norm, attention, norm, feed-forward, with pre-norm residuals.
#pragma once

#include "model/blocks/block.h"
#include "model/weights.h"

namespace hadal {

// Reads the residual stream as a.x + `pending` (the output of the layer before, not added yet, or
// empty), leaves it in a.x without its own last block's output, which is in a.delta.
void DecoderLayer(const BlockContext& context, const LayerWeights& weights, uint32_t layer,
                  Tensor pending);

}  // namespace hadal
