// DeepSeek V1 (MoE 16B): Llama's attention, softmax routing, shared experts.
#include "formats/archs/common.h"

namespace hadal {
namespace {

ModelDescription FromHf(const ConfigReader& config) {
  ModelDescription out;
  ModelSpec& spec = out.spec;
  spec = DecoderFromHf(config);
  config.Expect("attention_bias", false, "the architecture has no biases");
  spec.attention = GqaFromHf(config, spec);
  spec.rope = RopeFromHf(config, {.dim = spec.attention.head_dim, .max_context = spec.max_context});
  DeepSeekMoeFromHf(config, spec);
  FinishAttention(spec, config.source());
  return out;
}

ModelDescription FromGguf(const GgufInput& input) {
  ModelDescription out;
  ModelSpec& spec = out.spec;
  spec = DecoderFromGguf(input);
  spec.attention = GqaFromGguf(input, spec);
  input.metadata.Expect("rope.dimension_count", spec.attention.head_dim,
                        "the architecture rotates whole heads");
  // Reordered by converters, as Llama's.
  spec.rope = RopeFromGguf(input, {.dim = spec.attention.head_dim,
                                   .layout = RopeLayout::kInterleaved,
                                   .max_context = spec.max_context});
  DeepSeekMoeFromGguf(input, spec);
  FinishAttention(spec, input.metadata.source());
  return out;
}

}  // namespace

const Architecture kDeepSeek = {
    .name = "deepseek",
    .hf_types = {"deepseek"},
    .gguf_type = "deepseek",
    .from_hf = FromHf,
    .from_gguf = FromGguf,
    .hf_names = DeepSeekHfNames(),
};

}  // namespace hadal
