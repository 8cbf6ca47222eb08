// Llama and Mistral: grouped-query attention, SwiGLU, optional biases and sliding window.
#include "formats/archs/common.h"

namespace hadal {
namespace {

ModelDescription FromHf(const ConfigReader& config) {
  ModelDescription out;
  ModelSpec& spec = out.spec;
  spec = DecoderFromHf(config);
  config.Dimension("intermediate_size");
  spec.attention = GqaFromHf(config, spec);
  spec.rope = RopeFromHf(config, {.dim = spec.attention.head_dim, .max_context = spec.max_context});
  if (config.Text("model_type") == "mistral") {
    // Mistral's default is a window of 4096, so silence would be a guess.
    if (!config.Has("sliding_window")) {
      config.Bad("sliding_window", "is missing; write null for full attention");
    }
    const uint32_t window = config.OptionalDimension("sliding_window").value_or(0);
    for (LayerSpec& layer : spec.layers) layer.window = window;
  } else {
    config.Expect("sliding_window", Json(), "Llama models have no sliding window");
    config.Expect("rope_interleaved", false, "only half-split pairs are supported in this format");
    out.qkv_bias = out.o_bias = config.OptionalFlag("attention_bias").value_or(false);
    out.mlp_bias = config.OptionalFlag("mlp_bias").value_or(false);
  }
  FinishAttention(spec, config.source());
  return out;
}

ModelDescription FromGguf(const GgufInput& input) {
  const ConfigReader& meta = input.metadata;
  ModelDescription out;
  ModelSpec& spec = out.spec;
  spec = DecoderFromGguf(input);
  meta.UniformDimension("feed_forward_length");
  if (meta.OptionalCount("expert_count").value_or(0) > 0) {
    meta.Unsupported("expert_count", "is not 0; Mixtral-like models are not supported");
  }
  spec.attention = GqaFromGguf(input, spec);
  const uint32_t rope_dim =
      meta.OptionalDimension("rope.dimension_count").value_or(spec.attention.head_dim);
  // Converters reorder the rows of q and k so that pairs are neighbours.
  spec.rope = RopeFromGguf(
      input,
      {.dim = rope_dim, .layout = RopeLayout::kInterleaved, .max_context = spec.max_context});
  if (rope_dim > spec.attention.head_dim) {
    meta.Bad("rope.dimension_count", "is {}, but a head has {}", rope_dim, spec.attention.head_dim);
  }
  const uint32_t window = meta.OptionalCount("attention.sliding_window").value_or(0);
  for (LayerSpec& layer : spec.layers) layer.window = window;
  // The format has no key for biases: their presence in the first layer speaks for all.
  out.qkv_bias = input.tensors.contains("blk.0.attn_q.bias");
  out.o_bias = input.tensors.contains("blk.0.attn_output.bias");
  out.mlp_bias = input.tensors.contains("blk.0.ffn_gate.bias");
  FinishAttention(spec, meta.source());
  return out;
}

}  // namespace

const Architecture kLlama = {
    .name = "llama",
    .hf_types = {"llama", "mistral"},
    .gguf_type = "llama",
    .from_hf = FromHf,
    .from_gguf = FromGguf,
    .hf_names = {},
};

}  // namespace hadal
