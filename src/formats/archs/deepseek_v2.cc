// DeepSeek V2, V2-Lite, Coder-V2: multi-head latent attention, softmax routing. In GGUF, V3 is the
// same architecture with another gate, so both are read here.
#include <array>

#include "formats/archs/common.h"

namespace hadal {
namespace {

constexpr std::array kNames = {
    TensorName{"layers.#.q_a", "model.layers.#.self_attn.q_a_proj.weight"},
    TensorName{"layers.#.q_a_norm", "model.layers.#.self_attn.q_a_layernorm.weight"},
    TensorName{"layers.#.q_b", "model.layers.#.self_attn.q_b_proj.weight"},
    TensorName{"layers.#.kv_a", "model.layers.#.self_attn.kv_a_proj_with_mqa.weight"},
    TensorName{"layers.#.kv_a_norm", "model.layers.#.self_attn.kv_a_layernorm.weight"},
    TensorName{"layers.#.kv_b", "model.layers.#.self_attn.kv_b_proj.weight"},
    TensorName{"layers.#.router", "model.layers.#.mlp.gate.weight"},
    TensorName{"layers.#.router_bias", "model.layers.#.mlp.gate.e_score_correction_bias"},
    TensorName{"layers.#.experts.%.gate", "model.layers.#.mlp.experts.%.gate_proj.weight"},
    TensorName{"layers.#.experts.%.up", "model.layers.#.mlp.experts.%.up_proj.weight"},
    TensorName{"layers.#.experts.%.down", "model.layers.#.mlp.experts.%.down_proj.weight"},
    TensorName{"layers.#.shared.gate", "model.layers.#.mlp.shared_experts.gate_proj.weight"},
    TensorName{"layers.#.shared.up", "model.layers.#.mlp.shared_experts.up_proj.weight"},
    TensorName{"layers.#.shared.down", "model.layers.#.mlp.shared_experts.down_proj.weight"},
};

ModelDescription FromHf(const ConfigReader& config) {
  return DeepSeekMlaFromHf(config);
}

AttentionSpec MlaFromGguf(const ConfigReader& meta, bool split) {
  AttentionSpec out;
  out.kind = AttentionKind::kMla;
  out.n_heads = meta.UniformDimension("attention.head_count");
  out.n_kv_heads = 1;
  const uint32_t kv_heads = meta.UniformDimension("attention.head_count_kv");
  if (kv_heads != 1 && kv_heads != out.n_heads) {
    meta.Bad("attention.head_count_kv", "is {}; with latent attention it is 1 or the {} heads",
             kv_heads, out.n_heads);
  }
  out.q_lora_rank = meta.OptionalCount("attention.q_lora_rank").value_or(0);
  out.kv_lora_rank = meta.Dimension("attention.kv_lora_rank");
  out.qk_rope_head_dim = meta.Dimension("rope.dimension_count");
  // Newer converters describe the cached latent by key_length and the heads by *_mla.
  const auto key_mla = meta.OptionalDimension("attention.key_length_mla");
  const auto value_mla = meta.OptionalDimension("attention.value_length_mla");
  if (key_mla.has_value() != value_mla.has_value()) {
    meta.Bad("attention.value_length_mla", "and key_length_mla must stand together");
  }
  if (split && !key_mla) {
    meta.Bad("attention.key_length_mla", "is missing, but the file splits kv_b into k_b and v_b");
  }
  out.head_dim = key_mla ? *key_mla : meta.Dimension("attention.key_length");
  out.v_head_dim = value_mla ? *value_mla : meta.Dimension("attention.value_length");
  if (out.head_dim <= out.qk_rope_head_dim) {
    meta.Bad("rope.dimension_count", "is {}, but a key has only {}", out.qk_rope_head_dim,
             out.head_dim);
  }
  out.qk_nope_head_dim = out.head_dim - out.qk_rope_head_dim;
  const uint32_t latent = out.kv_lora_rank + out.qk_rope_head_dim;
  if (key_mla && meta.Dimension("attention.key_length") != latent) {
    meta.Bad("attention.key_length", "is {}, not kv_lora_rank + rope.dimension_count = {}",
             meta.Dimension("attention.key_length"), latent);
  }
  return out;
}

ModelDescription FromGguf(const GgufInput& input) {
  const ConfigReader& meta = input.metadata;
  ModelDescription out;
  ModelSpec& spec = out.spec;
  spec = DecoderFromGguf(input);
  out.mtp_layers = meta.OptionalCount("nextn_predict_layers").value_or(0);
  if (out.mtp_layers >= spec.n_layers) {
    meta.Bad("nextn_predict_layers", "is {} of {} blocks", out.mtp_layers, spec.n_layers);
  }
  spec.n_layers -= out.mtp_layers;
  spec.layers.resize(spec.n_layers);
  out.split_kv_b = !input.tensors.contains("blk.0.attn_kv_b.weight");
  spec.attention = MlaFromGguf(meta, out.split_kv_b);
  spec.rope = RopeFromGguf(input, {.dim = spec.attention.qk_rope_head_dim,
                                   .layout = RopeLayout::kInterleaved,
                                   .max_context = spec.max_context,
                                   .deepseek = true});
  DeepSeekMoeFromGguf(input, spec);
  spec.architecture =
      spec.moe && spec.moe->scoring == MoeScoring::kSigmoid ? "deepseek_v3" : "deepseek_v2";
  FinishAttention(spec, meta.source());
  return out;
}

}  // namespace

std::span<const TensorName> DeepSeekHfNames() {
  return kNames;
}

ModelDescription DeepSeekMlaFromHf(const ConfigReader& config) {
  ModelDescription out;
  ModelSpec& spec = out.spec;
  spec = DecoderFromHf(config);
  config.Expect("attention_bias", false, "biases in latent attention are not supported");
  AttentionSpec& attention = spec.attention;
  attention.kind = AttentionKind::kMla;
  attention.n_heads = config.Dimension("num_attention_heads");
  attention.n_kv_heads = 1;
  config.Expect("num_key_value_heads", attention.n_heads,
                "with latent attention it must equal num_attention_heads");
  attention.q_lora_rank = config.OptionalDimension("q_lora_rank").value_or(0);
  attention.kv_lora_rank = config.Dimension("kv_lora_rank");
  attention.qk_nope_head_dim = config.Dimension("qk_nope_head_dim");
  attention.qk_rope_head_dim = config.Dimension("qk_rope_head_dim");
  attention.v_head_dim = config.Dimension("v_head_dim");
  attention.head_dim = attention.qk_nope_head_dim + attention.qk_rope_head_dim;
  const bool neighbours = config.OptionalFlag("rope_interleave").value_or(true);
  spec.rope =
      RopeFromHf(config, {.dim = attention.qk_rope_head_dim,
                          .layout = neighbours ? RopeLayout::kInterleaved : RopeLayout::kHalfSplit,
                          .max_context = spec.max_context,
                          .deepseek = true});
  DeepSeekMoeFromHf(config, spec);
  FinishAttention(spec, config.source());
  return out;
}

const Architecture kDeepSeekV2 = {
    .name = "deepseek_v2",
    .hf_types = {"deepseek_v2"},
    .gguf_type = "deepseek2",
    .from_hf = FromHf,
    .from_gguf = FromGguf,
    .hf_names = kNames,
};

}  // namespace hadal
