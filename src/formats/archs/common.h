// What the architectures share: readers of the parts of a configuration. Each throws Error naming
// file and field on a missing, malformed, unknown or contradictory value.
#pragma once

#include "formats/archs/arch.h"

namespace hadal {

// Dimensions, norm, activation, context, tied embeddings. `intermediate` may be absent in models
// without dense layers.
ModelSpec DecoderFromHf(const ConfigReader& config);
ModelSpec DecoderFromGguf(const GgufInput& input);

// Heads of grouped-query attention. `fixed_head_dim`: config.json must name head_dim; otherwise it
// defaults, as in transformers, to hidden / heads.
AttentionSpec GqaFromHf(const ConfigReader& config, const ModelSpec& spec,
                        bool fixed_head_dim = false);
AttentionSpec GqaFromGguf(const GgufInput& input, const ModelSpec& spec);

struct RopeReading {
  uint32_t dim = 0;
  RopeLayout layout = RopeLayout::kHalfSplit;
  uint64_t max_context = 0;
  // DeepSeek's YaRN: mscale and mscale_all_dim with a softmax correction.
  bool deepseek = false;
};
RopeSpec RopeFromHf(const ConfigReader& config, const RopeReading& how);
RopeSpec RopeFromGguf(const GgufInput& input, const RopeReading& how);

// Fills attention.softmax_scale from head_dim and RoPE, and notes a context that is longer than the
// RoPE plan. Call it last. `source` stands in front of RoPE errors.
void FinishAttention(ModelSpec& spec, const std::string& source);

// DeepSeek's experts (V1, V2, V3): fields and layers.
void DeepSeekMoeFromHf(const ConfigReader& config, ModelSpec& spec);
void DeepSeekMoeFromGguf(const GgufInput& input, ModelSpec& spec);
// Qwen's experts.
void QwenMoeFromHf(const ConfigReader& config, ModelSpec& spec);
void QwenMoeFromGguf(const GgufInput& input, ModelSpec& spec);

// Multi-head latent attention of DeepSeek V2 and V3.
ModelDescription DeepSeekMlaFromHf(const ConfigReader& config);

// HF names of DeepSeek's experts and of MLA.
std::span<const TensorName> DeepSeekHfNames();

// A flag whose other value we do not have; absent counts as `expected`.
void ExpectSilu(const ConfigReader& config);

}  // namespace hadal
