// Mixture of experts with an optional shared expert.
#pragma once

#include "model/blocks/block.h"
#include "model/weights.h"

namespace hadal {

// out = sum of the chosen experts, weighted (routing: MoeSpec), plus the shared expert, which may
// have a gate of its own. x, out: [n, hidden].
void MixtureOfExperts(const BlockContext& context, const MoeWeights& weights, uint32_t layer,
                      Tensor x, Tensor out);

}  // namespace hadal
