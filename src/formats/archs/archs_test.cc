// Configurations: what is read right, and what is refused. The base of each case is a real
// configuration from tests/data/models with a JSON merge patch on it.
#include <gtest/gtest.h>

#include <cmath>

#include "base/mapped_file.h"
#include "formats/archs/arch.h"
#include "formats/tensor_plan.h"
#include "formats/testing.h"

namespace hadal {
namespace {

using formats_testing::Message;

ModelDescription Read(const std::string& model, const std::string& patch) {
  const auto path = formats_testing::Models() / model / "config.json";
  Json config = ParseJson(ReadTextFile(path), path.string());
  config.merge_patch(ParseJson(patch, "patch"));
  const ConfigReader reader(config, "config.json");
  return FindHfArchitecture(reader.Text("model_type"), "config.json").from_hf(reader);
}

TEST(Archs, DeepSeekSoftmaxScale) {
  // Published values: 192^-0.5 * 1.58963 (V2, mscale_all_dim 0.707) and * 1.87385 (V3, 1.0).
  const std::string dims = R"("qk_nope_head_dim":128,"qk_rope_head_dim":64,)";
  const auto scale = [&](const std::string& model, const std::string& all_dim) {
    return Read(model, "{" + dims + R"("rope_scaling":{"factor":40,"mscale":)" + all_dim +
                           R"(,"mscale_all_dim":)" + all_dim + "}}")
        .spec.attention.softmax_scale;
  };
  EXPECT_NEAR(scale("deepseek_v2_lite", "0.707") * std::sqrt(192.0), 1.58963, 1e-5);
  EXPECT_NEAR(scale("deepseek_v3", "1.0") * std::sqrt(192.0), 1.87385, 1e-5);
}

TEST(Archs, RoutingOfV2AndV3) {
  const MoeSpec v2 = *Read("deepseek_v2_group", "{}").spec.moe;
  EXPECT_EQ(v2.scoring, MoeScoring::kSoftmax);
  EXPECT_EQ(v2.group_score, MoeGroupScore::kMax);
  EXPECT_EQ(v2.n_groups_used, 2u);
  EXPECT_EQ(v2.weight_scale, 4.0f);
  EXPECT_EQ(v2.shared_intermediate, 16u);
  EXPECT_FALSE(v2.choice_bias);
  const MoeSpec v3 = *Read("deepseek_v3", "{}").spec.moe;
  EXPECT_EQ(v3.scoring, MoeScoring::kSigmoid);
  EXPECT_EQ(v3.group_score, MoeGroupScore::kTopTwoSum);
  EXPECT_TRUE(v3.choice_bias);
  EXPECT_TRUE(v3.normalize);
  EXPECT_EQ(Read("deepseek_v3_nogroup", "{}").spec.moe->group_score, MoeGroupScore::kNone);
}

TEST(Archs, MoeLayersFollowTheDenseOnes) {
  const ModelSpec spec =
      Read("deepseek_v3", R"({"num_hidden_layers":6,"first_k_dense_replace":1,"moe_layer_freq":2})")
          .spec;
  std::string layers;
  for (const LayerSpec& layer : spec.layers) layers += layer.moe ? 'm' : 'd';
  EXPECT_EQ(layers, "ddmdmd");
}

TEST(Archs, SlidingWindows) {
  const ModelSpec mixed = Read("qwen2_swa_mixed", "{}").spec;
  EXPECT_EQ(mixed.layers[0].window, 0u);
  EXPECT_EQ(mixed.layers[1].window, 16u);
  EXPECT_EQ(mixed.layers[2].window, 16u);
  const ModelSpec listed = Read("qwen2_swa_mixed",
                                R"({"max_window_layers":null,
               "layer_types":["sliding_attention","full_attention","sliding_attention"]})")
                               .spec;
  EXPECT_EQ(listed.layers[0].window, 16u);
  EXPECT_EQ(listed.layers[1].window, 0u);
  EXPECT_EQ(Read("qwen2_tied", "{}").spec.layers[0].window, 0u);
  EXPECT_EQ(Read("mistral_swa", "{}").spec.layers[1].window, 16u);
  EXPECT_EQ(Read("mistral_swa", R"({"head_dim":null})").spec.attention.head_dim, 8u);
}

TEST(Archs, NewRopeParametersMeanTheSame) {
  const RopeSpec old_style = Read("llama_rope_llama3", "{}").spec.rope;
  const RopeSpec new_style =
      Read("llama_rope_llama3",
           R"({"rope_scaling":null,"rope_theta":null,"rope_parameters":{"rope_type":"llama3",
               "rope_theta":10000.0,"factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
               "original_max_position_embeddings":64}})")
          .spec.rope;
  EXPECT_EQ(old_style.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(new_style.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(new_style.factor, old_style.factor);
  EXPECT_EQ(new_style.original_context, old_style.original_context);
  const RopeSpec plain = Read("llama_gqa", R"({"rope_theta":null,"rope_parameters":
                                 {"rope_type":"default","rope_theta":500000}})")
                             .spec.rope;
  EXPECT_EQ(plain.scaling, RopeScaling::kNone);
  EXPECT_EQ(plain.theta, 500000.0);
}

TEST(Archs, LongRopeAndMoeQwens) {
  const RopeSpec rope = Read("llama_gqa", R"({"original_max_position_embeddings":64,"head_dim":4,
            "rope_scaling":{"type":"longrope","short_factor":[1,1.5],"long_factor":[2,3.5]}})")
                            .spec.rope;
  EXPECT_EQ(rope.scaling, RopeScaling::kLongRope);
  EXPECT_EQ(rope.long_factors, (std::vector<double>{2, 3.5}));
  const ModelSpec moe =
      Read("qwen3", R"({"model_type":"qwen3_moe","num_experts":8,"num_experts_per_tok":2,
            "moe_intermediate_size":24,"norm_topk_prob":true,"decoder_sparse_step":1,
            "mlp_only_layers":[0]})")
          .spec;
  EXPECT_FALSE(moe.layers[0].moe);
  EXPECT_TRUE(moe.layers[1].moe);
  EXPECT_TRUE(moe.moe->normalize);
  EXPECT_TRUE(moe.attention.qk_norm);
}

struct Refusal {
  const char* model;
  const char* patch;
  const char* error;
};

const Refusal kRefusals[] = {
    {"llama_gqa", R"({"model_type":"gpt_j"})",
     "model_type 'gpt_j' is not supported; supported are"},
    {"llama_gqa", R"({"model_type":null})", "config.json: field 'model_type' is missing"},
    {"llama_gqa", R"({"hidden_size":null})", "config.json: field 'hidden_size' is missing"},
    {"llama_gqa", R"({"hidden_size":-4})", "must be an integer from 1 to 268435456, not -4"},
    {"llama_gqa", R"({"hidden_size":1152921504606846976})", "must be an integer from 1"},
    {"llama_gqa", R"({"hidden_size":"64"})", "must be an integer from 1 to 268435456, not \"64\""},
    {"llama_gqa", R"({"num_hidden_layers":100000})", "more than 4096 layers"},
    {"llama_gqa", R"({"num_key_value_heads":3})", "does not divide the 8 heads"},
    {"llama_gqa", R"({"hidden_act":"gelu"})", "field 'hidden_act' is 'gelu'"},
    {"llama_gqa", R"({"hidden_act":null})", "field 'hidden_act' is missing"},
    {"llama_gqa", R"({"rms_norm_eps":0})", "must be greater than 0"},
    {"llama_gqa", R"({"head_dim":7})", "even"},
    {"llama_gqa", R"({"sliding_window":16})", "Llama models have no sliding window"},
    {"llama_gqa", R"({"architectures":["LlamaForSequenceClassification"]})",
     "not a language model"},
    {"llama_gqa", R"({"tie_word_embeddings":1})", "must be true or false, not 1"},
    {"llama_gqa", R"({"partial_rotary_factor":0.5})", "only 1 is supported"},
    {"llama_rope_yarn", R"({"rope_scaling":{"rope_type":"linear"}})",
     "'rope_scaling.rope_type' is 'linear', but 'type' is 'yarn'"},
    {"llama_rope_yarn", R"({"rope_scaling":{"rope_type":"su","type":"su"}})",
     "'rope_scaling.rope_type' is 'su'; supported are"},
    {"llama_rope_yarn", R"({"rope_scaling":{"truncate":false}})",
     "field 'rope_scaling.truncate' is not one that Hadal knows"},
    {"llama_rope_yarn", R"({"rope_scaling":{"factor":0.5}})", "a factor below 1 has no meaning"},
    {"llama_rope_yarn", R"({"rope_parameters":{"rope_type":"default"}})",
     "stands beside 'rope_scaling'"},
    {"llama_rope_yarn", R"({"rope_scaling":[1]})", "expected a JSON object"},
    {"llama_rope_llama3", R"({"rope_scaling":{"high_freq_factor":1.0}})", "not above"},
    {"llama_rope_llama3", R"({"rope_scaling":{"low_freq_factor":null}})",
     "'rope_scaling.low_freq_factor' is missing"},
    {"llama_gqa", R"({"rope_parameters":{"rope_type":"default","rope_theta":5.0}})",
     "but rope_parameters.rope_theta is 5"},
    {"qwen2_swa_mixed", R"({"layer_types":["full_attention"]})", "1 entries for 3 layers"},
    {"qwen2_swa_mixed",
     R"({"layer_types":["full_attention","full_attention","sliding_attention"]})",
     "calls layer 1 full_attention, against"},
    {"qwen2_tied", R"({"layer_types":["full_attention","sliding_attention"]})",
     "against the fields"},
    {"qwen2_tied", R"({"layer_types":["full_attention","chunked"]})", "holds 'chunked'"},
    {"qwen2_swa_mixed", R"({"sliding_window":null})", "'sliding_window' is missing, but"},
    {"qwen2_tied", R"({"use_mrope":true})", "multimodal"},
    {"qwen3", R"({"head_dim":null})", "field 'head_dim' is missing"},
    {"deepseek_v3", R"({"scoring_func":"tanh"})", "is 'noaux_tc' with scoring_func 'tanh'"},
    {"deepseek_v3", R"({"topk_method":"greedy"})", "is 'greedy' with scoring_func 'sigmoid'"},
    {"deepseek_v3", R"({"n_group":5})", "is contradictory: 2 of 5 groups of 16 experts"},
    {"deepseek_v3", R"({"topk_group":5})", "is contradictory: 5 of 4 groups"},
    {"deepseek_v3", R"({"n_group":16,"topk_group":8})", "groups of one expert"},
    {"deepseek_v3", R"({"num_experts_per_tok":17})", "is 17 of 16 experts"},
    {"deepseek_v3", R"({"num_experts_per_tok":9})", "leaves 8 experts to choose 9 from"},
    {"deepseek_v3", R"({"num_key_value_heads":2})", "must equal num_attention_heads"},
    {"deepseek_v3", R"({"attention_bias":true})", "biases in latent attention"},
    {"deepseek_v3", R"({"first_k_dense_replace":null})", "'first_k_dense_replace' is missing"},
    {"deepseek_v3", R"({"intermediate_size":null})", "'intermediate_size' is missing"},
    {"deepseek_v3", R"({"rope_scaling":{"attention_factor":1.0}})", "DeepSeek's YaRN has none"},
    {"deepseek_v2_group", R"({"topk_method":"noaux_tc"})", "with scoring_func 'softmax'"},
    {"mistral_swa", R"({"sliding_window":0})", "must be an integer from 1"},
};

TEST(Archs, RefusesWhatItDoesNotKnow) {
  for (const Refusal& refusal : kRefusals) {
    const std::string error = Message([&] { Read(refusal.model, refusal.patch); });
    EXPECT_NE(error.find(refusal.error), std::string::npos)
        << refusal.model << " " << refusal.patch << ": " << (error.empty() ? "no error" : error);
  }
}

TEST(Archs, MistralMustSayWhetherItHasAWindow) {
  Json config =
      ParseJson(ReadTextFile(formats_testing::Models() / "mistral_swa" / "config.json"), "config");
  config.erase("sliding_window");
  const ConfigReader reader(config, "config.json");
  const Architecture& mistral = FindHfArchitecture("mistral", "config.json");
  const std::string error = Message([&] { mistral.from_hf(reader); });
  EXPECT_NE(error.find("write null for full attention"), std::string::npos) << error;
}

// GGUF metadata of a small DeepSeek; what a case changes goes through a patch.
ModelDescription ReadGguf(const std::string& type, const std::string& patch,
                          const TensorIndex& tensors) {
  Json metadata = ParseJson(
      R"({"block_count":2,"context_length":256,"embedding_length":32,"feed_forward_length":48,
          "attention.head_count":4,"attention.head_count_kv":4,"rope.freq_base":10000.0,
          "attention.layer_norm_rms_epsilon":1e-6,"vocab_size":300,"leading_dense_block_count":1,
          "attention.kv_lora_rank":16,"attention.key_length":24,"attention.value_length":12,
          "rope.dimension_count":16,"expert_feed_forward_length":8,"expert_count":8,
          "expert_used_count":3,"expert_shared_count":2,"expert_weights_scale":1.0})",
      "metadata");
  metadata.merge_patch(ParseJson(patch, "patch"));
  const ConfigReader reader(metadata, "m.gguf", type + ".");
  return FindGgufArchitecture(type, "m.gguf").from_gguf({reader, tensors, 0});
}

TensorIndex WithKvB() {
  return {{"blk.0.attn_kv_b.weight", {}}};
}

TEST(Archs, GgufV3WithoutGroupsIsRecognised) {
  const ModelSpec v3 =
      ReadGguf("deepseek2", R"({"expert_count":256,"expert_used_count":8,"expert_gating_func":2})",
               WithKvB())
          .spec;
  EXPECT_EQ(v3.architecture, "deepseek_v3");
  EXPECT_EQ(v3.moe->n_groups, 8u);
  EXPECT_EQ(v3.moe->n_groups_used, 4u);
  EXPECT_EQ(v3.moe->group_score, MoeGroupScore::kTopTwoSum);
  EXPECT_EQ(v3.notes.size(), 1u);
  const ModelSpec small = ReadGguf("deepseek2", R"({"expert_gating_func":2})", WithKvB()).spec;
  EXPECT_EQ(small.moe->group_score, MoeGroupScore::kNone);
  EXPECT_TRUE(small.notes.empty());
}

TEST(Archs, GgufSplitKvB) {
  const ModelDescription split = ReadGguf(
      "deepseek2",
      R"({"attention.head_count_kv":1,"attention.key_length":32,"attention.value_length":16,
          "attention.key_length_mla":24,"attention.value_length_mla":12})",
      {});
  EXPECT_TRUE(split.split_kv_b);
  EXPECT_EQ(split.spec.attention.head_dim, 24u);
  EXPECT_EQ(split.spec.attention.qk_nope_head_dim, 8u);
  EXPECT_EQ(split.spec.attention.v_head_dim, 12u);
  std::string k_b;
  VisitTensors(split, [&](const PlannedTensor& tensor) {
    if (tensor.canonical != "layers.#.k_b") return;
    for (const uint64_t dim : tensor.shape) k_b += std::to_string(dim) + " ";
  });
  EXPECT_EQ(k_b, "4 16 8 4 16 8 ");
}

TEST(Archs, GgufRefusals) {
  const Refusal refusals[] = {
      {"deepseek2", R"({"expert_gating_func":3})", "is 3; 1 (softmax) and 2 (sigmoid)"},
      {"deepseek2", R"({"expert_group_count":4})", "must stand together"},
      {"deepseek2", R"({"attention.head_count_kv":2})", "it is 1 or the 4 heads"},
      {"deepseek2", R"({"attention.key_length_mla":24})", "must stand together"},
      {"deepseek2", R"({"attention.key_length":16})", "a key has only 16"},
      {"deepseek2", R"({"attention.key_length_mla":24,"attention.value_length_mla":12})",
       "is 24, not kv_lora_rank + rope.dimension_count = 32"},
      {"deepseek2", R"({"rope.scaling.type":"yarn"})",
       "'deepseek2.rope.scaling.factor' is missing"},
      {"deepseek2", R"({"rope.scaling.type":"magic"})", "is 'magic'; supported are none"},
      {"deepseek2", R"({"leading_dense_block_count":null})",
       "leading_dense_block_count' is missing"},
      {"deepseek2", R"({"vocab_size":null})", "no tokenizer.ggml.tokens to count"},
      {"deepseek2", R"({"attention.head_count":[4,8]})", "differs between layers"},
      {"deepseek2", R"({"nextn_predict_layers":2})", "is 2 of 2 blocks"},
      {"llama", R"({"expert_count":8})", "Mixtral"},
      {"llama", R"({"expert_count":0,"attention.key_length":8})", "is 12, but keys have 8"},
      {"falcon", "{}", "architecture 'falcon' is not supported; supported are llama"},
  };
  for (const Refusal& refusal : refusals) {
    const std::string error = Message([&] { ReadGguf(refusal.model, refusal.patch, WithKvB()); });
    EXPECT_NE(error.find(refusal.error), std::string::npos)
        << refusal.model << " " << refusal.patch << ": " << (error.empty() ? "no error" : error);
  }
}

}  // namespace
}  // namespace hadal
