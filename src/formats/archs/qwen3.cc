// Qwen3: each head of q and k is normalised before RoPE; head_dim stands by itself.
#include "formats/archs/qwen.h"

namespace hadal {
namespace {

ModelDescription FromHf(const ConfigReader& config) {
  ModelDescription out = QwenFromHf(config, true);
  config.Dimension("intermediate_size");
  out.spec.attention.qk_norm = true;
  out.qkv_bias = out.o_bias = config.OptionalFlag("attention_bias").value_or(false);
  return out;
}

ModelDescription FromGguf(const GgufInput& input) {
  ModelDescription out = QwenFromGguf(input);
  input.metadata.UniformDimension("feed_forward_length");
  out.spec.attention.qk_norm = true;
  return out;
}

}  // namespace

const Architecture kQwen3 = {
    .name = "qwen3",
    .hf_types = {"qwen3"},
    .gguf_type = "qwen3",
    .from_hf = FromHf,
    .from_gguf = FromGguf,
    .hf_names = {},
};

}  // namespace hadal
