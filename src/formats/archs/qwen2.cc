// Qwen2 (and the R1 distills onto it): biases on q, k and v; sliding windows in some layers.
#include "formats/archs/qwen.h"

namespace hadal {
namespace {

// use_sliding_window, sliding_window, max_window_layers and the newer layer_types.
void ReadWindows(const ConfigReader& config, ModelSpec& spec) {
  const bool use = config.OptionalFlag("use_sliding_window").value_or(false);
  const auto from = config.OptionalCount("max_window_layers");
  const auto window = config.OptionalDimension("sliding_window");
  const std::vector<std::string> types = config.TextList("layer_types");
  if (!types.empty() && types.size() != spec.n_layers) {
    config.Bad("layer_types", "has {} entries for {} layers", types.size(), spec.n_layers);
  }
  if (use && !window) config.Bad("sliding_window", "is missing, but use_sliding_window is true");
  if (use && types.empty() && !from) {
    config.Bad("max_window_layers", "is missing, but use_sliding_window is true");
  }
  for (uint32_t i = 0; i < spec.n_layers; ++i) {
    bool sliding = use && from && i >= *from;
    if (!types.empty()) {
      if (types[i] != "full_attention" && types[i] != "sliding_attention") {
        config.Unsupported("layer_types", "holds '{}'", types[i]);
      }
      const bool listed = types[i] == "sliding_attention";
      if ((listed && !use) || (from && listed != sliding)) {
        config.Bad("layer_types", "calls layer {} {}, against the fields for sliding windows", i,
                   types[i]);
      }
      sliding = listed;
    }
    if (sliding) spec.layers[i].window = *window;
  }
}

ModelDescription FromHf(const ConfigReader& config) {
  ModelDescription out = QwenFromHf(config, false);
  config.Dimension("intermediate_size");
  out.qkv_bias = true;
  return out;
}

ModelDescription FromGguf(const GgufInput& input) {
  ModelDescription out = QwenFromGguf(input);
  input.metadata.UniformDimension("feed_forward_length");
  out.qkv_bias = true;
  return out;
}

}  // namespace

ModelDescription QwenFromHf(const ConfigReader& config, bool fixed_head_dim) {
  ModelDescription out;
  ModelSpec& spec = out.spec;
  spec = DecoderFromHf(config);
  config.Expect("use_mrope", false, "multimodal positions are not supported");
  config.Expect("dual_chunk_attention_config", Json(), "dual chunk attention is not supported");
  spec.attention = GqaFromHf(config, spec, fixed_head_dim);
  spec.rope = RopeFromHf(config, {.dim = spec.attention.head_dim, .max_context = spec.max_context});
  ReadWindows(config, spec);
  FinishAttention(spec, config.source());
  return out;
}

ModelDescription QwenFromGguf(const GgufInput& input) {
  const ConfigReader& meta = input.metadata;
  ModelDescription out;
  ModelSpec& spec = out.spec;
  spec = DecoderFromGguf(input);
  spec.attention = GqaFromGguf(input, spec);
  meta.Expect("rope.dimension_count", spec.attention.head_dim, "Qwen rotates whole heads");
  spec.rope =
      RopeFromGguf(input, {.dim = spec.attention.head_dim, .max_context = spec.max_context});
  const uint32_t window = meta.OptionalCount("attention.sliding_window").value_or(0);
  for (LayerSpec& layer : spec.layers) layer.window = window;
  FinishAttention(spec, meta.source());
  return out;
}

const Architecture kQwen2 = {
    .name = "qwen2",
    .hf_types = {"qwen2"},
    .gguf_type = "qwen2",
    .from_hf = FromHf,
    .from_gguf = FromGguf,
    .hf_names = {},
};

}  // namespace hadal
