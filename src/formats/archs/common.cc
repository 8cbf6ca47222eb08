#include "formats/archs/common.h"

#include <cmath>

#include "spec/rope_table.h"

namespace hadal {
namespace {

constexpr uint32_t kMaxLayers = 4096;

uint32_t CheckedLayers(const ConfigReader& reader, std::string_view field) {
  const uint32_t layers = reader.Dimension(field);
  if (layers > kMaxLayers) {
    reader.Bad(field, "is {}; more than {} layers are not possible", layers, kMaxLayers);
  }
  return layers;
}

void CheckHeads(const ConfigReader& reader, std::string_view field, const AttentionSpec& spec) {
  if (spec.n_heads % spec.n_kv_heads != 0) {
    reader.Bad(field, "is {}, which does not divide the {} heads", spec.n_kv_heads, spec.n_heads);
  }
}

}  // namespace

void ExpectSilu(const ConfigReader& config) {
  if (const std::string act = config.Text("hidden_act"); act != "silu") {
    config.Unsupported("hidden_act", "is '{}'; only 'silu' is supported", act);
  }
}

ModelSpec DecoderFromHf(const ConfigReader& config) {
  for (const std::string& name : config.TextList("architectures")) {
    if (!name.ends_with("ForCausalLM")) {
      config.Unsupported("architectures", "names {}, which is not a language model for text", name);
    }
  }
  ExpectSilu(config);
  ModelSpec spec;
  spec.hidden = config.Dimension("hidden_size");
  spec.n_layers = CheckedLayers(config, "num_hidden_layers");
  spec.vocab = config.Dimension("vocab_size");
  spec.intermediate = config.OptionalDimension("intermediate_size").value_or(0);
  spec.norm_eps = static_cast<float>(config.Positive("rms_norm_eps"));
  spec.max_context = config.Tokens("max_position_embeddings");
  // All supported families default to false.
  spec.tied_embeddings = config.OptionalFlag("tie_word_embeddings").value_or(false);
  spec.layers.resize(spec.n_layers);
  return spec;
}

ModelSpec DecoderFromGguf(const GgufInput& input) {
  const ConfigReader& meta = input.metadata;
  ModelSpec spec;
  spec.hidden = meta.Dimension("embedding_length");
  spec.n_layers = CheckedLayers(meta, "block_count");
  spec.intermediate = meta.OptionalUniformDimension("feed_forward_length").value_or(0);
  spec.norm_eps = static_cast<float>(meta.Positive("attention.layer_norm_rms_epsilon"));
  spec.max_context = meta.Tokens("context_length");
  if (const auto vocab = meta.OptionalDimension("vocab_size")) {
    spec.vocab = *vocab;
  } else if (input.n_tokens > 0 && input.n_tokens <= ConfigReader::kMaxDimension) {
    spec.vocab = static_cast<uint32_t>(input.n_tokens);
  } else {
    meta.Bad("vocab_size", "is missing, and there are no tokenizer.ggml.tokens to count");
  }
  spec.tied_embeddings = !input.tensors.contains("output.weight");
  spec.layers.resize(spec.n_layers);
  return spec;
}

AttentionSpec GqaFromHf(const ConfigReader& config, const ModelSpec& spec, bool fixed_head_dim) {
  AttentionSpec out;
  out.n_heads = config.Dimension("num_attention_heads");
  // As in transformers: configurations from before grouped-query attention lack the field.
  out.n_kv_heads = config.OptionalDimension("num_key_value_heads").value_or(out.n_heads);
  CheckHeads(config, "num_key_value_heads", out);
  if (fixed_head_dim) {
    out.head_dim = config.Dimension("head_dim");
  } else if (const auto head_dim = config.OptionalDimension("head_dim")) {
    out.head_dim = *head_dim;
  } else if (spec.hidden % out.n_heads != 0) {
    config.Bad("num_attention_heads", "is {}, which does not divide hidden_size {}", out.n_heads,
               spec.hidden);
  } else {
    out.head_dim = spec.hidden / out.n_heads;
  }
  return out;
}

AttentionSpec GqaFromGguf(const GgufInput& input, const ModelSpec& spec) {
  const ConfigReader& meta = input.metadata;
  AttentionSpec out;
  out.n_heads = meta.UniformDimension("attention.head_count");
  out.n_kv_heads = meta.OptionalUniformDimension("attention.head_count_kv").value_or(out.n_heads);
  CheckHeads(meta, "attention.head_count_kv", out);
  if (const auto length = meta.OptionalDimension("attention.key_length")) {
    out.head_dim = *length;
  } else if (spec.hidden % out.n_heads != 0) {
    meta.Bad("attention.head_count", "is {}, which does not divide embedding_length {}",
             out.n_heads, spec.hidden);
  } else {
    out.head_dim = spec.hidden / out.n_heads;
  }
  const auto value_length = meta.OptionalDimension("attention.value_length");
  if (value_length && *value_length != out.head_dim) {
    meta.Unsupported("attention.value_length", "is {}, but keys have {}", *value_length,
                     out.head_dim);
  }
  return out;
}

void FinishAttention(ModelSpec& spec, const std::string& source) {
  const RopeTable table = WithContext(source, [&] { return RopeTable(spec.rope); });
  spec.attention.softmax_scale = static_cast<float>(
      table.softmax_correction() / std::sqrt(static_cast<double>(spec.attention.head_dim)));
  const RopeSpec& rope = spec.rope;
  const bool scaled = rope.scaling != RopeScaling::kNone && rope.original_context > 0;
  if (scaled && rope.scaling != RopeScaling::kLongRope && rope.factor > 1 &&
      static_cast<double>(spec.max_context) >
          static_cast<double>(rope.original_context) * rope.factor) {
    spec.notes.push_back(
        fmt::format("The file claims a context of {} tokens, but its RoPE scaling (factor {:g} "
                    "over {}) reaches "
                    "only {:.0f}.",
                    spec.max_context, rope.factor, rope.original_context,
                    static_cast<double>(rope.original_context) * rope.factor));
  }
}

}  // namespace hadal
