#include "formats/gguf_metadata.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "formats/archs/arch.h"

namespace hadal {
namespace {

void SetRope(const ModelSpec& spec, const std::string& arch, GgufWriter& writer) {
  const RopeSpec& rope = spec.rope;
  const std::string prefix = arch + ".rope.";
  writer.SetF32(prefix + "freq_base", static_cast<float>(rope.theta));
  writer.SetU32(prefix + "dimension_count", rope.dim);
  switch (rope.scaling) {
    case RopeScaling::kNone:
    case RopeScaling::kLlama3:            // as the tensor rope_freqs.weight
    case RopeScaling::kFrequencyFactors:  // likewise
      return;
    case RopeScaling::kLinear:
      writer.SetString(prefix + "scaling.type", "linear");
      writer.SetF32(prefix + "scaling.factor", static_cast<float>(rope.factor));
      return;
    case RopeScaling::kYarn:
    case RopeScaling::kYarnDeepSeek:
      break;
    case RopeScaling::kDynamicNtk:
    case RopeScaling::kNtkAware:
    case RopeScaling::kLongRope:
      Fail(ErrorKind::kUnsupported,
           "{}: its RoPE scaling depends on the length in a way that GGUF cannot express",
           spec.name);
  }
  writer.SetString(prefix + "scaling.type", "yarn");
  writer.SetF32(prefix + "scaling.factor", static_cast<float>(rope.factor));
  writer.SetU32(prefix + "scaling.original_context_length",
                static_cast<uint32_t>(rope.original_context));
  writer.SetF32(prefix + "scaling.yarn_beta_fast", static_cast<float>(rope.beta_fast));
  writer.SetF32(prefix + "scaling.yarn_beta_slow", static_cast<float>(rope.beta_slow));
  if (rope.scaling == RopeScaling::kYarnDeepSeek) {
    if (rope.mscale != rope.mscale_all_dim) {
      Fail(ErrorKind::kUnsupported,
           "{}: mscale {} differs from mscale_all_dim {}, which GGUF cannot express", spec.name,
           rope.mscale, rope.mscale_all_dim);
    }
    writer.SetF32(prefix + "scaling.yarn_log_multiplier",
                  static_cast<float>(0.1 * rope.mscale_all_dim));
  } else if (rope.attention_factor != 0 || (rope.mscale != 0 && rope.mscale_all_dim != 0)) {
    Fail(ErrorKind::kUnsupported, "{}: its YaRN attention factor has no place in GGUF", spec.name);
  }
}

void SetAttention(const ModelSpec& spec, const std::string& arch, GgufWriter& writer) {
  const AttentionSpec& a = spec.attention;
  const std::string prefix = arch + ".attention.";
  writer.SetF32(prefix + "layer_norm_rms_epsilon", spec.norm_eps);
  writer.SetU32(prefix + "head_count", a.n_heads);
  writer.SetU32(prefix + "key_length", a.head_dim);
  if (a.kind == AttentionKind::kGqa) {
    writer.SetU32(prefix + "head_count_kv", a.n_kv_heads);
    writer.SetU32(prefix + "value_length", a.head_dim);
  } else {
    if (spec.rope.layout != RopeLayout::kInterleaved) {
      Fail(ErrorKind::kUnsupported, "{}: its RoPE layout has no place in GGUF", spec.name);
    }
    writer.SetU32(prefix + "head_count_kv", a.n_heads);
    writer.SetU32(prefix + "value_length", a.v_head_dim);
    if (a.q_lora_rank > 0) writer.SetU32(prefix + "q_lora_rank", a.q_lora_rank);
    writer.SetU32(prefix + "kv_lora_rank", a.kv_lora_rank);
  }
  const uint32_t window = spec.layers.front().window;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.window == window) continue;
    Fail(ErrorKind::kUnsupported, "{}: sliding windows in some layers only have no place in GGUF",
         spec.name);
  }
  if (window > 0) writer.SetU32(prefix + "sliding_window", window);
}

void SetMoe(const ModelSpec& spec, const std::string& arch, GgufWriter& writer) {
  if (!spec.moe) return;
  const MoeSpec& moe = *spec.moe;
  const std::string prefix = arch + ".";
  uint32_t n_dense = 0;
  while (n_dense < spec.n_layers && !spec.layers[n_dense].moe) ++n_dense;
  for (uint32_t i = n_dense; i < spec.n_layers; ++i) {
    if (spec.layers[i].moe) continue;
    Fail(ErrorKind::kUnsupported,
         "{}: dense layers after the first MoE layer have no place in GGUF", spec.name);
  }
  const bool qwen = arch.starts_with("qwen");
  if (qwen && n_dense > 0) {
    Fail(ErrorKind::kUnsupported, "{}: dense layers have no place in GGUF's {}", spec.name, arch);
  }
  writer.SetU32(prefix + "expert_count", moe.n_experts);
  writer.SetU32(prefix + "expert_used_count", moe.n_used);
  writer.SetU32(prefix + "expert_feed_forward_length", moe.intermediate);
  writer.SetBool(prefix + "expert_weights_norm", moe.normalize);
  if (qwen) {
    if (moe.shared_intermediate > 0) {
      writer.SetU32(prefix + "expert_shared_feed_forward_length", moe.shared_intermediate);
    }
    return;
  }
  writer.SetU32(prefix + "leading_dense_block_count", n_dense);
  writer.SetU32(prefix + "expert_shared_count", moe.shared_intermediate / moe.intermediate);
  writer.SetF32(prefix + "expert_weights_scale", moe.weight_scale);
  writer.SetU32(prefix + "expert_gating_func", moe.scoring == MoeScoring::kSigmoid ? 2 : 1);
  writer.SetU32(prefix + "expert_group_count", moe.n_groups);
  writer.SetU32(prefix + "expert_group_used_count", moe.n_groups_used);
}

// The patterns of a tokenizer.json's pre-tokenizer, one line per step.
std::string Signature(const Json& step) {
  if (!step.is_object()) return "?\n";
  const std::string type = step.value("type", "?");
  if (type == "Sequence") {
    std::string out;
    for (const Json& inner : step.value("pretokenizers", Json::array())) out += Signature(inner);
    return out;
  }
  if (type == "Split") {
    const Json pattern = step.value("pattern", Json::object());
    const bool isolated = step.value("behavior", "") == "Isolated" && !step.value("invert", false);
    return fmt::format("Split{} {}\n", isolated ? "" : "?",
                       pattern.is_object() ? pattern.value("Regex", "?") : "?");
  }
  if (type == "ByteLevel") {
    if (step.value("add_prefix_space", false)) return "?\n";
    return step.value("use_regex", true) ? "GPT-2\n" : "";
  }
  if (type == "Digits") return step.value("individual_digits", false) ? "Digit\n" : "Digits\n";
  return "?\n";
}

struct PreTokenizer {
  std::string_view name;
  std::string_view signature;
};

constexpr std::array kPreTokenizers = {
    PreTokenizer{"gpt-2", "GPT-2\n"},
    PreTokenizer{"smollm", "Digit\nGPT-2\n"},
    PreTokenizer{
        "qwen2",
        R"(Split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
        "\n"},
    PreTokenizer{
        "llama-bpe",
        R"(Split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
        "\n"},
    PreTokenizer{"deepseek-v3", R"(Split \p{N}{1,3})"
                                "\nSplit [一-龥぀-ゟ゠-ヿ]+\n"
                                R"(Split [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^)"
                                "\r\n"
                                R"(\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[)"
                                "\r\n]*"
                                R"(|\s*[)"
                                "\r\n]+"
                                R"(|\s+(?!\S)|\s+)"
                                "\n"},
    PreTokenizer{"deepseek-coder",
                 "Split [\r\n]\n"
                 R"(Split \s?\p{L}+)"
                 "\n"
                 R"(Split \s?\p{P}+)"
                 "\nSplit [一-龥ࠀ-一가-퟿]+\nDigit\n"},
};

struct Pieces {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<bool> known;
};

void PutToken(Pieces& pieces, const Json& id, const std::string& text, int32_t type,
              const std::string& source) {
  if (!id.is_number_unsigned() || id.get<uint64_t>() >= pieces.tokens.size()) {
    Fail(ErrorKind::kBadFile, "{}: token '{}' has the id {}, outside the vocabulary of {}", source,
         text, id.dump(), pieces.tokens.size());
  }
  const auto at = id.get<size_t>();
  pieces.tokens[at] = text;
  pieces.types[at] = type;
  pieces.known[at] = true;
}

Pieces ReadPieces(const Json& tokenizer, uint32_t vocab, const std::string& source) {
  Pieces pieces;
  pieces.tokens.resize(vocab);
  pieces.types.assign(vocab, 5);
  pieces.known.assign(vocab, false);
  for (const auto& [text, id] : tokenizer["model"]["vocab"].items()) {
    PutToken(pieces, id, text, 1, source);
  }
  for (const Json& added : tokenizer.value("added_tokens", Json::array())) {
    const bool valid = added.is_object() && added.contains("id") && added.contains("content") &&
                       added["content"].is_string();
    if (!valid) Fail(ErrorKind::kBadFile, "{}: an added token without id and content", source);
    // 3: control, 4: user-defined.
    PutToken(pieces, added["id"], added["content"].get<std::string>(),
             added.value("special", false) ? 3 : 4, source);
  }
  for (uint32_t i = 0; i < vocab; ++i) {
    if (!pieces.known[i]) pieces.tokens[i] = fmt::format("[PAD{}]", i);
  }
  return pieces;
}

std::vector<std::string> ReadMerges(const Json& model, const std::string& source) {
  std::vector<std::string> merges;
  for (const Json& merge : model.value("merges", Json::array())) {
    if (merge.is_string()) {
      merges.push_back(merge.get<std::string>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    } else {
      Fail(ErrorKind::kBadFile, "{}: a merge is neither a string nor a pair of strings", source);
    }
  }
  return merges;
}

// What tokenizer_config.json says, or else whether the post-processor puts a token in front.
bool AddsBos(const Json& tokenizer, const Vocabulary& vocabulary) {
  if (!vocabulary.tokenizer_config_json.empty()) {
    const Json config = ParseJson(vocabulary.tokenizer_config_json, "tokenizer_config.json");
    const auto flag = config.find("add_bos_token");
    if (flag != config.end() && flag->is_boolean()) return flag->get<bool>();
  }
  const std::string text = tokenizer.value("post_processor", Json()).dump();
  const size_t single = text.find("\"single\":[{\"SpecialToken\"");
  return single != std::string::npos;
}

}  // namespace

std::string GgufArchitecture(const ModelSpec& spec) {
  constexpr std::array kPairs = {
      std::pair{"llama", "llama"},           std::pair{"qwen2", "qwen2"},
      std::pair{"qwen3", "qwen3"},           std::pair{"qwen2_moe", "qwen2moe"},
      std::pair{"qwen3_moe", "qwen3moe"},    std::pair{"deepseek", "deepseek"},
      std::pair{"deepseek_v2", "deepseek2"}, std::pair{"deepseek_v3", "deepseek2"},
  };
  for (const auto& [name, gguf] : kPairs) {
    if (spec.architecture == name) return gguf;
  }
  Fail(ErrorKind::kUnsupported, "GGUF has no architecture for {}", spec.architecture);
}

void SetModelMetadata(const ModelSpec& spec, GgufWriter& writer) {
  const std::string arch = GgufArchitecture(spec);
  writer.SetString("general.architecture", arch);
  writer.SetString("general.name", spec.name);
  writer.SetU32(arch + ".block_count", spec.n_layers);
  writer.SetU32(arch + ".context_length",
                static_cast<uint32_t>(std::min<uint64_t>(spec.max_context, 0xFFFFFFFF)));
  writer.SetU32(arch + ".embedding_length", spec.hidden);
  writer.SetU32(arch + ".vocab_size", spec.vocab);
  if (spec.intermediate > 0) writer.SetU32(arch + ".feed_forward_length", spec.intermediate);
  SetAttention(spec, arch, writer);
  SetRope(spec, arch, writer);
  SetMoe(spec, arch, writer);
}

std::string PreTokenizerName(const Json& tokenizer, const std::string& source) {
  const std::string signature = Signature(tokenizer.value("pre_tokenizer", Json()));
  for (const PreTokenizer& known : kPreTokenizers) {
    if (known.signature == signature) return std::string(known.name);
  }
  Fail(ErrorKind::kUnsupported, "{}: its pre-tokenizer has no name in GGUF that Hadal knows",
       source);
}

void SetTokenizerMetadata(const ModelSpec& spec, const Vocabulary& vocabulary, GgufWriter& writer) {
  const std::string& source = vocabulary.source;
  if (vocabulary.tokenizer_json.empty()) {
    Fail(ErrorKind::kNotFound, "{}: no tokenizer.json there, and the GGUF file needs one", source);
  }
  const Json tokenizer = ParseJson(vocabulary.tokenizer_json, source);
  const Json model = tokenizer.is_object() ? tokenizer.value("model", Json()) : Json();
  const bool byte_level = model.is_object() && model.value("type", "BPE") == "BPE" &&
                          !model.value("byte_fallback", false) && model.contains("vocab") &&
                          model["vocab"].is_object();
  if (!byte_level) {
    Fail(ErrorKind::kUnsupported, "{}: only byte-level BPE tokenizers can be written to GGUF",
         source);
  }
  const Pieces pieces = ReadPieces(tokenizer, spec.vocab, source);
  writer.SetString("tokenizer.ggml.model", "gpt2");
  writer.SetString("tokenizer.ggml.pre", PreTokenizerName(tokenizer, source));
  writer.SetStrings("tokenizer.ggml.tokens", pieces.tokens);
  writer.SetI32s("tokenizer.ggml.token_type", pieces.types);
  writer.SetStrings("tokenizer.ggml.merges", ReadMerges(model, source));
  if (spec.bos_id >= 0) {
    writer.SetU32("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(spec.bos_id));
  }
  constexpr std::array kEndKeys = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                   "tokenizer.ggml.eom_token_id"};
  for (size_t i = 0; i < std::min(spec.eos_ids.size(), kEndKeys.size()); ++i) {
    writer.SetU32(kEndKeys[i], static_cast<uint32_t>(spec.eos_ids[i]));
  }
  writer.SetBool("tokenizer.ggml.add_bos_token", AddsBos(tokenizer, vocabulary));
  if (!vocabulary.chat_template.empty()) {
    writer.SetString("tokenizer.chat_template", vocabulary.chat_template);
  }
}

}  // namespace hadal
