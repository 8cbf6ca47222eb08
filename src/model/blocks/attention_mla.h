// Multi-head latent attention in its absorbed form: the cache holds one latent per token, shared
// by all heads.
#pragma once

#include "model/blocks/block.h"
#include "model/weights.h"

namespace hadal {

// q = x W, or through a normed low-rank bottleneck; latent, k_rope = x W_kv_a, the latent normed;
// RoPE on q's and k's rope parts; [latent, k_rope] goes to the cache; absorbed attention; output
// projection. x, out: [n, hidden].
void AttentionMla(const BlockContext& context, const MlaWeights& weights, uint32_t layer, Tensor x,
                  Tensor out);

}  // namespace hadal
