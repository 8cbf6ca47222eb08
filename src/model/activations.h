// Every buffer that Forward writes, carved from one allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "spec/model_spec.h"

namespace hadal {

// Rows: one per token of the step, except for the last two. Empty where the architecture does not
// need one.
struct Activations {
  Tensor x;         // [n, hidden]  residual stream
  Tensor normed;    // [n, hidden]  input of the next block
  Tensor delta;     // [n, hidden]  output of a block, added to x by the next norm
  Tensor cos, sin;  // [n, rope dim / 2]
  // attention
  Tensor q;         // [n, heads * head_dim]
  Tensor k, v;      // [n, kv_heads * head_dim]; MLA: k is [n, kv_lora + rope]
  Tensor q_a;       // [n, q_lora]
  Tensor attended;  // [n, heads * v_head_dim]
  // feed-forward
  Tensor gate, up;       // [n, widest intermediate]
  Tensor router_logits;  // [n, experts]
  Tensor shared;         // [n, hidden]
  Tensor shared_gate;    // [n, 1]
  Routing routing;       // [n, n_used]
  // logits
  Tensor logit_x;  // [max_logit_rows, hidden]
  Tensor logits;   // [max_logit_rows, vocab]

  // The same buffers with n rows (the last two with n_logits).
  Activations Rows(uint32_t n, uint32_t n_logits) const;
};

// Lays the buffers out from `base` on, 64-byte aligned each; returns the bytes they take through
// `bytes`. With base == nullptr only counts.
Activations LayOutActivations(const ModelSpec& spec, const StepLimits& limits, std::byte* base,
                              uint64_t* bytes);

}  // namespace hadal
