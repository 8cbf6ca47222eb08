// Models of round numbers, for tests.
#pragma once

#include <memory>

#include "memory/memory_plan.h"

namespace hadal {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;

inline ModelSpec GqaSpec(uint32_t layers, uint32_t kv_heads, uint32_t head_dim) {
  ModelSpec spec;
  spec.n_layers = layers;
  spec.layers.resize(layers);
  spec.hidden = kv_heads * head_dim;
  spec.vocab = 1000;
  spec.attention = {.n_heads = kv_heads, .n_kv_heads = kv_heads, .head_dim = head_dim};
  return spec;
}

// DeepSeek's latents: 512 and 64.
inline ModelSpec MlaSpec(uint32_t layers) {
  ModelSpec spec = GqaSpec(layers, 1, 64);
  spec.attention = {.kind = AttentionKind::kMla, .n_heads = 16, .kv_lora_rank = 512};
  spec.attention.qk_rope_head_dim = 64;
  return spec;
}

// 100 MiB of weights as stored, 60 in q8, 30 in q4; 4 KiB of activations per token of a step; 1 MiB
// of tokenizer; no workspace.
struct TestModel : MemoryModel {
  explicit TestModel(ModelSpec a_spec) : owned_spec(std::move(a_spec)), device(MakeRefBackend()) {
    spec = &owned_spec;
    backend = device.get();
    weight_bytes = [](WeightPolicy policy) {
      return policy == WeightPolicy::kQ4 ? 30 * kMiB
                                         : (policy == WeightPolicy::kQ8 ? 60 : 100) * kMiB;
    };
    activation_bytes = [vocab = owned_spec.vocab](const StepLimits& limits) {
      return uint64_t{limits.max_tokens} * 4096 + uint64_t{limits.max_logit_rows} * vocab * 4;
    };
    tokenizer_bytes = kMiB;
  }
  TestModel(const TestModel&) = delete;
  TestModel& operator=(const TestModel&) = delete;

  const ModelSpec owned_spec;
  const std::unique_ptr<Backend> device;
};

}  // namespace hadal
