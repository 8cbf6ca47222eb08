// From the residual stream to logits.
#pragma once

#include <span>

#include "model/blocks/block.h"
#include "model/weights.h"

namespace hadal {

// Adds a.delta to the residual stream, norms it, and computes the logits of the given rows alone.
// Returns [rows.size(), vocab].
Tensor LogitsHead(const BlockContext& context, const ModelWeights& weights,
                  std::span<const uint32_t> rows);

}  // namespace hadal
