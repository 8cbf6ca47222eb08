// Qwen3-MoE: Qwen3's attention; softmax routing without shared experts.
#include <array>

#include "formats/archs/qwen.h"

namespace hadal {
namespace {

constexpr std::array kNames = {
    TensorName{"layers.#.router", "model.layers.#.mlp.gate.weight"},
    TensorName{"layers.#.experts.%.gate", "model.layers.#.mlp.experts.%.gate_proj.weight"},
    TensorName{"layers.#.experts.%.up", "model.layers.#.mlp.experts.%.up_proj.weight"},
    TensorName{"layers.#.experts.%.down", "model.layers.#.mlp.experts.%.down_proj.weight"},
};

ModelDescription FromHf(const ConfigReader& config) {
  ModelDescription out = QwenFromHf(config, true);
  out.spec.attention.qk_norm = true;
  out.qkv_bias = out.o_bias = config.OptionalFlag("attention_bias").value_or(false);
  QwenMoeFromHf(config, out.spec);
  return out;
}

ModelDescription FromGguf(const GgufInput& input) {
  ModelDescription out = QwenFromGguf(input);
  out.spec.attention.qk_norm = true;
  QwenMoeFromGguf(input, out.spec);
  // The format has no key for it; the published models normalise.
  out.spec.moe->normalize = input.metadata.OptionalFlag("expert_weights_norm").value_or(true);
  return out;
}

}  // namespace

const Architecture kQwen3Moe = {
    .name = "qwen3_moe",
    .hf_types = {"qwen3_moe"},
    .gguf_type = "qwen3moe",
    .from_hf = FromHf,
    .from_gguf = FromGguf,
    .hf_names = kNames,
};

}  // namespace hadal
