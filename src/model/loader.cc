#include "model/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "model/mla_projection.h"
#include "quant/blocks.h"

namespace hadal {
namespace {

// Router logits decide which experts run: they are kept exact whatever the policy.
bool IsRouter(std::string_view name) {
  return name.ends_with(".router");
}

WeightPolicy PolicyOf(std::string_view name, WeightPolicy policy) {
  return IsRouter(name) ? WeightPolicy::kF32 : policy;
}

void RefuseNonFinite(const TensorView& view) {
  const std::optional<NonFinite> found = FindNonFinite(view, 0, view.rows());
  if (!found) return;
  Fail(ErrorKind::kBadFile,
       "tensor '{}': {} in row {}, block {} is not a finite number; the file is damaged or was "
       "converted wrongly",
       view.name, found->is_scale ? "a scale" : "a value", found->row, found->block);
}

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, Backend& backend, const LoadOptions& options)
      : checkpoint_(checkpoint),
        spec_(checkpoint.spec()),
        backend_(backend),
        options_(options),
        total_(PlanWeightBytes(checkpoint, backend, options.policy)) {}

  LoadedWeights Load() {
    LoadedWeights loaded;
    ModelWeights& weights = loaded.weights;
    weights.embed = Take("embed");
    for (uint32_t i = 0; i < spec_.n_layers; ++i) weights.layers.push_back(Layer(i));
    weights.norm = Take("norm");
    if (!spec_.tied_embeddings) weights.head = Linear("head");
    if (taken_ != checkpoint_.tensors().size()) {
      Fail(ErrorKind::kUnsupported,
           "{} of the model's {} tensors have no use in architecture {}; it is not supported in "
           "this form",
           checkpoint_.tensors().size() - taken_, checkpoint_.tensors().size(), spec_.architecture);
    }
    loaded.bytes = done_;
    loaded.step_bytes = done_ - expert_bytes_;
    if (spec_.moe) loaded.step_bytes += expert_bytes_ / spec_.moe->n_experts * spec_.moe->n_used;
    if (!spec_.tied_embeddings) {
      loaded.step_bytes -= weights.embed->bytes() - weights.embed->bytes() / spec_.vocab;
    }
    return loaded;
  }

 private:
  std::unique_ptr<Weight> Upload(const TensorView& view, WeightPolicy policy) {
    std::unique_ptr<Weight> weight = backend_.Upload(view, policy);
    done_ += weight->bytes();
    return weight;
  }

  void Finish(const TensorView& view) {
    ++taken_;
    checkpoint_.Release(view);
    if (options_.progress) options_.progress(done_, total_);
  }

  std::unique_ptr<Weight> Take(const std::string& name) {
    const TensorView& view = checkpoint_.tensor(name);
    RefuseNonFinite(view);
    std::unique_ptr<Weight> weight = Upload(view, PolicyOf(name, options_.policy));
    Finish(view);
    return weight;
  }

  std::unique_ptr<Weight> TakeIfPresent(const std::string& name) {
    return checkpoint_.find(name) == nullptr ? nullptr : Take(name);
  }

  LinearWeights Linear(const std::string& name) {
    LinearWeights linear;
    linear.weight = Take(name);
    linear.bias = TakeIfPresent(name + ".bias");
    return linear;
  }

  LayerWeights Layer(uint32_t index) {
    const std::string prefix = fmt::format("layers.{}.", index);
    LayerWeights layer;
    layer.attn_norm = Take(prefix + "attn_norm");
    if (spec_.attention.kind == AttentionKind::kGqa) {
      layer.gqa = Gqa(prefix);
    } else {
      layer.mla = Mla(prefix);
    }
    layer.ffn_norm = Take(prefix + "ffn_norm");
    if (spec_.layers[index].moe) {
      layer.moe = Moe(prefix);
    } else {
      layer.ffn = Ffn(prefix);
    }
    return layer;
  }

  GqaWeights Gqa(const std::string& prefix) {
    GqaWeights gqa;
    gqa.q = Linear(prefix + "q");
    gqa.k = Linear(prefix + "k");
    gqa.v = Linear(prefix + "v");
    gqa.o = Linear(prefix + "o");
    if (spec_.attention.qk_norm) {
      gqa.q_norm = Take(prefix + "q_norm");
      gqa.k_norm = Take(prefix + "k_norm");
    }
    return gqa;
  }

  MlaWeights Mla(const std::string& prefix) {
    MlaWeights mla;
    if (spec_.attention.q_lora_rank == 0) {
      mla.q = Linear(prefix + "q");
    } else {
      mla.q_a = Linear(prefix + "q_a");
      mla.q_a_norm = Take(prefix + "q_a_norm");
      mla.q_b = Linear(prefix + "q_b");
    }
    mla.kv_a = Linear(prefix + "kv_a");
    mla.kv_a_norm = Take(prefix + "kv_a_norm");
    const WeightPolicy policy = MlaProjectionPolicy(options_.policy);
    if (const TensorView* kv_b = checkpoint_.find(prefix + "kv_b"); kv_b != nullptr) {
      RefuseNonFinite(*kv_b);
      mla.k_up = Upload(KUpFromKvB(spec_.attention, *kv_b).view, policy);
      mla.v_up = Upload(VUpFromKvB(spec_.attention, *kv_b).view, policy);
      Finish(*kv_b);
    } else {
      mla.k_up = TakeProjection(prefix + "k_b", policy);
      mla.v_up = TakeProjection(prefix + "v_b", policy);
    }
    mla.o = Linear(prefix + "o");
    return mla;
  }

  std::unique_ptr<Weight> TakeProjection(const std::string& name, WeightPolicy policy) {
    const TensorView& view = checkpoint_.tensor(name);
    RefuseNonFinite(view);
    std::unique_ptr<Weight> weight = Upload(DequantizedCopy(view).view, policy);
    Finish(view);
    return weight;
  }

  FfnWeights Ffn(const std::string& prefix) {
    FfnWeights ffn;
    ffn.gate = Linear(prefix + "gate");
    ffn.up = Linear(prefix + "up");
    ffn.down = Linear(prefix + "down");
    return ffn;
  }

  MoeWeights Moe(const std::string& prefix) {
    const MoeSpec& spec = *spec_.moe;
    MoeWeights moe;
    moe.router = Linear(prefix + "router");
    if (spec.choice_bias) moe.choice_bias = Take(prefix + "router_bias");
    for (uint32_t e = 0; e < spec.n_experts; ++e) {
      const std::string expert = fmt::format("{}experts.{}.", prefix, e);
      const uint64_t before = done_;
      moe.experts.push_back({Take(expert + "gate"), Take(expert + "up"), Take(expert + "down")});
      expert_bytes_ += done_ - before;
    }
    if (spec.shared_intermediate > 0) moe.shared = Ffn(prefix + "shared.");
    if (spec.shared_gate) moe.shared_router = Linear(prefix + "shared.router");
    return moe;
  }

  const Checkpoint& checkpoint_;
  const ModelSpec& spec_;
  Backend& backend_;
  const LoadOptions& options_;
  const uint64_t total_;
  uint64_t done_ = 0;
  uint64_t expert_bytes_ = 0;
  size_t taken_ = 0;
};

}  // namespace

LoadedWeights LoadWeights(const Checkpoint& checkpoint, Backend& backend,
                          const LoadOptions& options) {
  return Loader(checkpoint, backend, options).Load();
}

uint64_t PlanWeightBytes(const Checkpoint& checkpoint, const Backend& backend,
                         WeightPolicy policy) {
  const AttentionSpec& attention = checkpoint.spec().attention;
  const WeightPolicy projection = MlaProjectionPolicy(policy);
  uint64_t bytes = 0;
  for (const Checkpoint::Entry& entry : checkpoint.tensors()) {
    if (entry.name.ends_with(".kv_b")) {
      bytes += backend.WeightBytes(KUpShape(attention), projection) +
               backend.WeightBytes(VUpShape(attention), projection);
    } else if (entry.name.ends_with(".k_b")) {
      bytes += backend.WeightBytes(KUpShape(attention), projection);
    } else if (entry.name.ends_with(".v_b")) {
      bytes += backend.WeightBytes(VUpShape(attention), projection);
    } else {
      bytes += backend.WeightBytes(entry.view, PolicyOf(entry.name, policy));
    }
    if (bytes >> 62 != 0) {
      Fail(ErrorKind::kUnsupported, "tensor '{}': with it the weights take more than 2^62 bytes",
           entry.name);
    }
  }
  return bytes;
}

}  // namespace hadal
