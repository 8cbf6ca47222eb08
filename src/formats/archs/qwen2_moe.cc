// Qwen2-MoE: Qwen2's attention; softmax routing and one shared expert behind a gate of its own.
#include <array>

#include "formats/archs/qwen.h"

namespace hadal {
namespace {

constexpr std::array kNames = {
    TensorName{"layers.#.router", "model.layers.#.mlp.gate.weight"},
    TensorName{"layers.#.experts.%.gate", "model.layers.#.mlp.experts.%.gate_proj.weight"},
    TensorName{"layers.#.experts.%.up", "model.layers.#.mlp.experts.%.up_proj.weight"},
    TensorName{"layers.#.experts.%.down", "model.layers.#.mlp.experts.%.down_proj.weight"},
    TensorName{"layers.#.shared.gate", "model.layers.#.mlp.shared_expert.gate_proj.weight"},
    TensorName{"layers.#.shared.up", "model.layers.#.mlp.shared_expert.up_proj.weight"},
    TensorName{"layers.#.shared.down", "model.layers.#.mlp.shared_expert.down_proj.weight"},
    TensorName{"layers.#.shared.router", "model.layers.#.mlp.shared_expert_gate.weight"},
};

ModelDescription FromHf(const ConfigReader& config) {
  ModelDescription out = QwenFromHf(config, false);
  out.qkv_bias = config.OptionalFlag("qkv_bias").value_or(true);
  QwenMoeFromHf(config, out.spec);
  out.spec.moe->shared_intermediate = config.Dimension("shared_expert_intermediate_size");
  out.spec.moe->shared_gate = true;
  return out;
}

ModelDescription FromGguf(const GgufInput& input) {
  ModelDescription out = QwenFromGguf(input);
  out.qkv_bias = true;
  QwenMoeFromGguf(input, out.spec);
  MoeSpec& moe = *out.spec.moe;
  const ConfigReader& meta = input.metadata;
  moe.shared_gate = true;
  if (const auto width = meta.OptionalDimension("expert_shared_feed_forward_length")) {
    moe.shared_intermediate = *width;
  } else {
    // Files from before the key: the dense width.
    moe.shared_intermediate = meta.UniformDimension("feed_forward_length");
  }
  // The format has no key for it; the published models do not normalise.
  moe.normalize = meta.OptionalFlag("expert_weights_norm").value_or(false);
  return out;
}

}  // namespace

const Architecture kQwen2Moe = {
    .name = "qwen2_moe",
    .hf_types = {"qwen2_moe"},
    .gguf_type = "qwen2moe",
    .from_hf = FromHf,
    .from_gguf = FromGguf,
    .hf_names = kNames,
};

}  // namespace hadal
