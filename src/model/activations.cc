#include "model/activations.h"

#include <algorithm>

namespace hadal {
namespace {

class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  Tensor Floats(uint64_t rows, uint64_t cols) {
    if (cols == 0) return {};
    return Tensor(reinterpret_cast<float*>(Take(rows * cols * sizeof(float))),
                  static_cast<uint32_t>(rows), static_cast<uint32_t>(cols));
  }

  std::byte* Take(uint64_t bytes) {
    std::byte* at = base_ == nullptr ? nullptr : base_ + bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return at;
  }

  uint64_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  uint64_t bytes_ = 0;
};

void LayOutAttention(const ModelSpec& spec, uint64_t n, Carver& carver, Activations& a) {
  const AttentionSpec& attention = spec.attention;
  const uint64_t heads = attention.n_heads;
  a.q = carver.Floats(n, heads * attention.head_dim);
  if (attention.kind == AttentionKind::kMla) {
    a.q_a = carver.Floats(n, attention.q_lora_rank);
    a.k = carver.Floats(n, attention.kv_lora_rank + attention.qk_rope_head_dim);
    a.attended = carver.Floats(n, heads * attention.v_head_dim);
  } else {
    a.k = carver.Floats(n, uint64_t{attention.n_kv_heads} * attention.head_dim);
    a.v = carver.Floats(n, uint64_t{attention.n_kv_heads} * attention.head_dim);
    a.attended = carver.Floats(n, heads * attention.head_dim);
  }
}

void LayOutFeedForward(const ModelSpec& spec, uint64_t n, Carver& carver, Activations& a) {
  const bool dense = std::any_of(spec.layers.begin(), spec.layers.end(),
                                 [](const LayerSpec& layer) { return !layer.moe; });
  const uint32_t width =
      std::max(dense ? spec.intermediate : 0, spec.moe ? spec.moe->shared_intermediate : 0);
  a.gate = carver.Floats(n, width);
  a.up = carver.Floats(n, width);
  if (!spec.moe) return;
  a.router_logits = carver.Floats(n, spec.moe->n_experts);
  a.shared = carver.Floats(n, spec.moe->shared_intermediate > 0 ? spec.hidden : 0);
  a.shared_gate = carver.Floats(n, spec.moe->shared_gate ? 1 : 0);
  a.routing.n_used = spec.moe->n_used;
  const uint64_t choices = n * spec.moe->n_used;
  a.routing.experts = reinterpret_cast<int32_t*>(carver.Take(choices * sizeof(int32_t)));
  a.routing.weights = reinterpret_cast<float*>(carver.Take(choices * sizeof(float)));
}

}  // namespace

Activations LayOutActivations(const ModelSpec& spec, const StepLimits& limits, std::byte* base,
                              uint64_t* bytes) {
  const uint64_t n = limits.max_tokens;
  Carver carver(base);
  Activations a;
  a.x = carver.Floats(n, spec.hidden);
  a.normed = carver.Floats(n, spec.hidden);
  a.delta = carver.Floats(n, spec.hidden);
  a.cos = carver.Floats(n, spec.rope.dim / 2);
  a.sin = carver.Floats(n, spec.rope.dim / 2);
  LayOutAttention(spec, n, carver, a);
  LayOutFeedForward(spec, n, carver, a);
  a.logit_x = carver.Floats(limits.max_logit_rows, spec.hidden);
  a.logits = carver.Floats(limits.max_logit_rows, spec.vocab);
  *bytes = carver.bytes();
  return a;
}

Activations Activations::Rows(uint32_t n, uint32_t n_logits) const {
  Activations a = *this;
  for (Tensor* tensor :
       {&a.x, &a.normed, &a.delta, &a.cos, &a.sin, &a.q, &a.k, &a.v, &a.q_a, &a.attended, &a.gate,
        &a.up, &a.router_logits, &a.shared, &a.shared_gate}) {
    tensor->rows = n;
  }
  a.logit_x.rows = n_logits;
  a.logits.rows = n_logits;
  return a;
}

}  // namespace hadal
