// A model's architecture as pure data. formats/archs fills it from a config; everything else reads
// it. A field here is named after what it does, never after the model that first had it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spec/rope_spec.h"

namespace hadal {

enum class AttentionKind : uint8_t { kGqa, kMla };

struct AttentionSpec {
  AttentionKind kind = AttentionKind::kGqa;
  uint32_t n_heads = 0;
  uint32_t n_kv_heads = 0;  // GQA; for MLA the cache holds one latent shared by all heads
  uint32_t head_dim = 0;    // GQA: of q, k and v. MLA: qk_nope_head_dim + qk_rope_head_dim
  bool qk_norm = false;     // RMS norm of each q and k head before RoPE
  float softmax_scale = 0;  // on the scores, RoPE's correction included
  // MLA only
  uint32_t q_lora_rank = 0;  // 0: q is projected directly
  uint32_t kv_lora_rank = 0;
  uint32_t qk_nope_head_dim = 0;
  uint32_t qk_rope_head_dim = 0;
  uint32_t v_head_dim = 0;
};

enum class MoeScoring : uint8_t { kSoftmax, kSigmoid };
enum class MoeGroupScore : uint8_t {
  kNone,       // no groups
  kMax,        // group_limited_greedy: a group's score is its best expert's
  kTopTwoSum,  // noaux_tc: the sum of its two best biased scores
};

struct MoeSpec {
  uint32_t n_experts = 0;
  uint32_t n_used = 0;
  uint32_t intermediate = 0;         // width of one expert
  uint32_t shared_intermediate = 0;  // width of the shared experts' one MLP; 0: none
  bool shared_gate = false;          // shared output is scaled by sigmoid(x . w)
  MoeScoring scoring = MoeScoring::kSoftmax;
  MoeGroupScore group_score = MoeGroupScore::kNone;
  uint32_t n_groups = 1;
  uint32_t n_groups_used = 1;
  bool choice_bias = false;   // e_score_correction_bias: for choosing only
  bool normalize = false;     // weights of the chosen experts are divided by their sum
  float weight_scale = 1.0f;  // routed_scaling_factor, applied last
};

struct LayerSpec {
  bool moe = false;
  uint32_t window = 0;  // sliding window in tokens, the token itself included; 0: full attention
};

struct ModelSpec {
  std::string architecture;  // canonical name: "llama", "qwen2", "deepseek_v3", ...
  std::string name;          // what the file calls itself; may be empty
  uint32_t hidden = 0;
  uint32_t n_layers = 0;
  uint32_t vocab = 0;
  uint32_t intermediate = 0;  // dense feed-forward width
  float norm_eps = 1e-6f;
  bool tied_embeddings = false;  // the output matrix is the embedding
  uint64_t max_context = 0;      // what the file claims
  AttentionSpec attention;
  std::optional<MoeSpec> moe;
  RopeSpec rope;
  std::vector<LayerSpec> layers;  // n_layers entries

  // From config and generation_config; -1 / empty when absent.
  int32_t bos_id = -1;
  std::vector<int32_t> eos_ids;

  // The model's recommended sampling (generation_config.json); NaN / negative when absent.
  struct SamplingDefaults {
    std::optional<float> temperature, top_p, repetition_penalty;
    std::optional<int32_t> top_k;
    std::optional<bool> do_sample;
  } sampling;

  // Things a user should know: MTP layers left out, a context longer than the RoPE plan supports.
  std::vector<std::string> notes;
};

}  // namespace hadal
