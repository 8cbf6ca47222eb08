// Routing and expert fields of the two families of configurations.
#include <algorithm>

#include "base/error.h"
#include "formats/archs/common.h"

namespace hadal {
namespace {

constexpr uint32_t kMaxExperts = 65536;

void CheckExperts(const ConfigReader& reader, std::string_view used_field, const MoeSpec& moe) {
  if (moe.n_experts > kMaxExperts || moe.n_used > moe.n_experts) {
    reader.Bad(used_field, "is {} of {} experts; at most all of up to {} are possible", moe.n_used,
               moe.n_experts, kMaxExperts);
  }
}

void CheckGroups(const ConfigReader& reader, std::string_view field, const MoeSpec& moe) {
  if (moe.n_experts % moe.n_groups != 0 || moe.n_groups_used > moe.n_groups) {
    reader.Bad(field, "is contradictory: {} of {} groups of {} experts", moe.n_groups_used,
               moe.n_groups, moe.n_experts);
  }
  const uint32_t reachable = moe.n_experts / moe.n_groups * moe.n_groups_used;
  if (moe.n_used > reachable) {
    reader.Bad(field, "leaves {} experts to choose {} from", reachable, moe.n_used);
  }
  if (moe.group_score == MoeGroupScore::kTopTwoSum && moe.n_experts / moe.n_groups < 2) {
    reader.Bad(field, "makes groups of one expert, but a group's score is the sum of two");
  }
}

// first_k_dense_replace and moe_layer_freq.
void MarkLayers(ModelSpec& spec, uint32_t n_dense, uint32_t frequency) {
  for (uint32_t i = n_dense; i < spec.n_layers; ++i) spec.layers[i].moe = i % frequency == 0;
}

void CheckDenseWidth(const ConfigReader& reader, std::string_view field, const ModelSpec& spec) {
  const bool dense = std::any_of(spec.layers.begin(), spec.layers.end(),
                                 [](const LayerSpec& layer) { return !layer.moe; });
  if (dense && spec.intermediate == 0) reader.Bad(field, "is missing");
}

void ReadTopkMethod(const ConfigReader& config, MoeSpec& moe) {
  // V1's configurations know neither field: softmax and greedy is all there was.
  const std::string scoring = config.OptionalText("scoring_func").value_or("softmax");
  const std::string method = config.OptionalText("topk_method").value_or("greedy");
  // The first V2 configurations spell it "gready".
  if (scoring == "softmax" && (method == "greedy" || method == "gready")) {
    moe.scoring = MoeScoring::kSoftmax;
  } else if (scoring == "softmax" && method == "group_limited_greedy") {
    moe.scoring = MoeScoring::kSoftmax;
    moe.group_score = MoeGroupScore::kMax;
  } else if (scoring == "sigmoid" && method == "noaux_tc") {
    moe.scoring = MoeScoring::kSigmoid;
    moe.group_score = MoeGroupScore::kTopTwoSum;
    moe.choice_bias = true;
  } else {
    config.Unsupported("topk_method",
                       "is '{}' with scoring_func '{}'; supported are softmax with greedy or "
                       "group_limited_greedy, and sigmoid with noaux_tc",
                       method, scoring);
  }
  if (moe.group_score == MoeGroupScore::kNone) return;
  moe.n_groups = config.Dimension("n_group");
  moe.n_groups_used = config.Dimension("topk_group");
  // One group limits nothing.
  if (moe.n_groups == 1) moe.group_score = MoeGroupScore::kNone;
  CheckGroups(config, "topk_group", moe);
}

// Published files that lack their groups, recognised by their shape.
void KnownGroups(ModelSpec& spec, MoeSpec& moe) {
  const bool v3 = moe.scoring == MoeScoring::kSigmoid && moe.n_experts == 256;
  const bool v2 = moe.scoring == MoeScoring::kSoftmax && moe.n_experts == 160;
  if (!v3 && !v2) return;
  moe.n_groups = 8;
  moe.n_groups_used = v3 ? 4 : 3;
  spec.notes.push_back(
      fmt::format("The file does not name its expert groups; a DeepSeek-{} of {} experts has 8, of "
                  "which {} are "
                  "kept.",
                  v3 ? "V3" : "V2", moe.n_experts, moe.n_groups_used));
}

void ReadGgufGroups(const GgufInput& input, ModelSpec& spec, MoeSpec& moe) {
  const ConfigReader& meta = input.metadata;
  const auto groups = meta.OptionalCount("expert_group_count");
  const auto used = meta.OptionalCount("expert_group_used_count");
  if (groups.has_value() != used.has_value()) {
    meta.Bad("expert_group_used_count", "and expert_group_count must stand together");
  }
  if (!groups) {
    KnownGroups(spec, moe);
  } else if (*groups > 0) {
    moe.n_groups = *groups;
    moe.n_groups_used = *used;
    if (*used == 0) meta.Bad("expert_group_used_count", "is 0");
  }
  if (moe.n_groups > 1) {
    moe.group_score =
        moe.scoring == MoeScoring::kSigmoid ? MoeGroupScore::kTopTwoSum : MoeGroupScore::kMax;
  }
  CheckGroups(meta, "expert_group_count", moe);
}

}  // namespace

void DeepSeekMoeFromHf(const ConfigReader& config, ModelSpec& spec) {
  const auto n_experts = config.OptionalDimension("n_routed_experts");
  if (!n_experts) {
    CheckDenseWidth(config, "intermediate_size", spec);
    return;
  }
  MoeSpec moe;
  moe.n_experts = *n_experts;
  moe.n_used = config.Dimension("num_experts_per_tok");
  CheckExperts(config, "num_experts_per_tok", moe);
  moe.intermediate = config.Dimension("moe_intermediate_size");
  const uint64_t shared =
      uint64_t{config.OptionalCount("n_shared_experts").value_or(0)} * uint64_t{moe.intermediate};
  if (shared > ConfigReader::kMaxDimension) {
    config.Bad("n_shared_experts", "makes shared experts {} wide", shared);
  }
  moe.shared_intermediate = static_cast<uint32_t>(shared);
  ReadTopkMethod(config, moe);
  // A single chosen expert keeps its score: DeepSeek's code normalises only when there are more.
  moe.normalize = config.OptionalFlag("norm_topk_prob").value_or(false) && moe.n_used > 1;
  moe.weight_scale =
      static_cast<float>(config.OptionalPositive("routed_scaling_factor").value_or(1.0));
  MarkLayers(spec, config.Count("first_k_dense_replace"),
             config.OptionalDimension("moe_layer_freq").value_or(1));
  CheckDenseWidth(config, "intermediate_size", spec);
  spec.moe = moe;
}

void DeepSeekMoeFromGguf(const GgufInput& input, ModelSpec& spec) {
  const ConfigReader& meta = input.metadata;
  const uint32_t n_experts = meta.OptionalCount("expert_count").value_or(0);
  if (n_experts == 0) {
    CheckDenseWidth(meta, "feed_forward_length", spec);
    return;
  }
  MoeSpec moe;
  moe.n_experts = n_experts;
  moe.n_used = meta.Dimension("expert_used_count");
  CheckExperts(meta, "expert_used_count", moe);
  moe.intermediate = meta.Dimension("expert_feed_forward_length");
  const uint64_t shared =
      uint64_t{meta.OptionalCount("expert_shared_count").value_or(0)} * uint64_t{moe.intermediate};
  if (shared > ConfigReader::kMaxDimension) {
    meta.Bad("expert_shared_count", "makes shared experts {} wide", shared);
  }
  moe.shared_intermediate = static_cast<uint32_t>(shared);
  // Files from before the key are softmax models. 0 means the same in some converters.
  const uint32_t gating = meta.OptionalCount("expert_gating_func").value_or(1);
  if (gating > 2) {
    meta.Unsupported("expert_gating_func", "is {}; 1 (softmax) and 2 (sigmoid) are supported",
                     gating);
  }
  moe.scoring = gating == 2 ? MoeScoring::kSigmoid : MoeScoring::kSoftmax;
  moe.normalize = meta.OptionalFlag("expert_weights_norm").value_or(false) && moe.n_used > 1;
  moe.weight_scale =
      static_cast<float>(meta.OptionalPositive("expert_weights_scale").value_or(1.0));
  ReadGgufGroups(input, spec, moe);
  MarkLayers(spec, meta.Count("leading_dense_block_count"), 1);
  CheckDenseWidth(meta, "feed_forward_length", spec);
  for (uint32_t i = 0; i < spec.n_layers && !moe.choice_bias; ++i) {
    moe.choice_bias =
        spec.layers[i].moe && input.tensors.contains(fmt::format("blk.{}.exp_probs_b.bias", i));
  }
  spec.moe = moe;
}

void QwenMoeFromHf(const ConfigReader& config, ModelSpec& spec) {
  MoeSpec moe;
  moe.n_experts = config.Dimension("num_experts");
  moe.n_used = config.Dimension("num_experts_per_tok");
  CheckExperts(config, "num_experts_per_tok", moe);
  moe.intermediate = config.Dimension("moe_intermediate_size");
  const auto normalize = config.OptionalFlag("norm_topk_prob");
  if (!normalize) config.Bad("norm_topk_prob", "is missing");
  moe.normalize = *normalize;
  const uint32_t step = config.OptionalDimension("decoder_sparse_step").value_or(1);
  const std::vector<int32_t> dense = config.TokenIds("mlp_only_layers");
  for (uint32_t i = 0; i < spec.n_layers; ++i) {
    const bool listed =
        std::find(dense.begin(), dense.end(), static_cast<int32_t>(i)) != dense.end();
    spec.layers[i].moe = !listed && (i + 1) % step == 0;
  }
  CheckDenseWidth(config, "intermediate_size", spec);
  spec.moe = moe;
}

void QwenMoeFromGguf(const GgufInput& input, ModelSpec& spec) {
  const ConfigReader& meta = input.metadata;
  MoeSpec moe;
  moe.n_experts = meta.Dimension("expert_count");
  moe.n_used = meta.Dimension("expert_used_count");
  CheckExperts(meta, "expert_used_count", moe);
  if (const auto width = meta.OptionalDimension("expert_feed_forward_length")) {
    moe.intermediate = *width;
  } else {
    // Files from before the key share the dense width among the experts used.
    moe.intermediate = meta.Dimension("feed_forward_length") / moe.n_used;
  }
  for (LayerSpec& layer : spec.layers) layer.moe = true;
  spec.moe = moe;
}

}  // namespace hadal
