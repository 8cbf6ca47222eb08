#include "model/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
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
  // `kept`: where the packed weights are read from; `writer`: where they go. Both may be null.
  Loader(const Checkpoint& checkpoint, Backend& backend, const LoadOptions& options,
         const BlobReader* kept, PackWriter* writer)
      : checkpoint_(checkpoint),
        spec_(checkpoint.spec()),
        backend_(backend),
        options_(options),
        kept_(kept),
        writer_(writer),
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
    std::unique_ptr<Weight> weight = kept_ == nullptr
                                         ? backend_.Upload(view, policy)
                                         : backend_.Restore(view, policy, *kept_, next_kept_);
    if (kept_ != nullptr) next_kept_ += weight->packed().size();
    if (writer_ != nullptr) writer_->Append(*weight);
    done_ += weight->bytes();
    return weight;
  }

  // A matrix that `derive` makes of the file's tensor.
  template <typename Derive>
  std::unique_ptr<Weight> UploadDerived(const TensorView& shape, Derive&& derive) {
    const WeightPolicy policy = MlaProjectionPolicy(options_.policy);
    if (kept_ != nullptr) return Upload(shape, policy);
    const OwnedTensor derived = derive();
    return Upload(derived.view, policy);
  }

  // Kept weights were checked before they were kept.
  void Check(const TensorView& view) const {
    if (kept_ == nullptr) RefuseNonFinite(view);
  }

  void Finish(const TensorView& view) {
    ++taken_;
    checkpoint_.Release(view);
    if (options_.progress) options_.progress(done_, total_);
  }

  std::unique_ptr<Weight> Take(const std::string& name) {
    const TensorView& view = checkpoint_.tensor(name);
    Check(view);
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
    const AttentionSpec& attention = spec_.attention;
    if (const TensorView* kv_b = checkpoint_.find(prefix + "kv_b"); kv_b != nullptr) {
      Check(*kv_b);
      mla.k_up = UploadDerived(KUpShape(attention), [&] { return KUpFromKvB(attention, *kv_b); });
      mla.v_up = UploadDerived(VUpShape(attention), [&] { return VUpFromKvB(attention, *kv_b); });
      Finish(*kv_b);
    } else {
      mla.k_up = TakeProjection(prefix + "k_b", KUpShape(attention));
      mla.v_up = TakeProjection(prefix + "v_b", VUpShape(attention));
    }
    mla.o = Linear(prefix + "o");
    return mla;
  }

  std::unique_ptr<Weight> TakeProjection(const std::string& name, const TensorView& shape) {
    const TensorView& view = checkpoint_.tensor(name);
    Check(view);
    std::unique_ptr<Weight> weight = UploadDerived(shape, [&] { return DequantizedCopy(view); });
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
  const BlobReader* kept_;
  PackWriter* writer_;
  const uint64_t total_;
  size_t next_kept_ = 0;
  uint64_t done_ = 0;
  uint64_t expert_bytes_ = 0;
  size_t taken_ = 0;
};

// None when nothing is kept, or what is kept is damaged.
std::optional<LoadedWeights> LoadKept(const PackCache& cache, const Checkpoint& checkpoint,
                                      Backend& backend, const LoadOptions& options) {
  const std::unique_ptr<BlobReader> kept = cache.Open();
  if (kept == nullptr) return std::nullopt;
  try {
    LoadedWeights loaded = Loader(checkpoint, backend, options, kept.get(), nullptr).Load();
    cache.Touch();
    loaded.outcome.from_cache = true;
    loaded.outcome.file = cache.path();
    return loaded;
  } catch (const Error& error) {
    // The checkpoint itself has loaded before: only what was kept of it can be bad.
    if (error.kind() != ErrorKind::kBadFile && error.kind() != ErrorKind::kIo) throw;
    cache.Discard(error.message());
    return std::nullopt;
  }
}

LoadedWeights LoadAndKeep(const PackCache& cache, const Checkpoint& checkpoint, Backend& backend,
                          const LoadOptions& options) {
  std::string why;
  const uint64_t bytes = PlanWeightBytes(checkpoint, backend, options.policy);
  const std::unique_ptr<PackWriter> writer = cache.Create(bytes, why);
  LoadedWeights loaded = Loader(checkpoint, backend, options, nullptr, writer.get()).Load();
  if (writer != nullptr) {
    why = checkpoint.Unchanged() ? writer->Keep(cache.key()) : "the files changed meanwhile";
    if (why.empty()) loaded.outcome.file = cache.path();
  }
  loaded.outcome.why_not_kept = why;
  return loaded;
}

}  // namespace

LoadedWeights LoadWeights(const Checkpoint& checkpoint, Backend& backend,
                          const LoadOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const PackCache cache(options.cache, checkpoint, backend, options.policy);
  std::optional<LoadedWeights> loaded = LoadKept(cache, checkpoint, backend, options);
  if (!loaded) loaded = LoadAndKeep(cache, checkpoint, backend, options);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  loaded->outcome.seconds = taken.count();
  return std::move(*loaded);
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
