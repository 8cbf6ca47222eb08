#include "model/model.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "model/activations.h"
#include "model/blocks/decoder.h"
#include "model/blocks/heads.h"
#include "model/loader.h"
#include "model/rope_rows.h"

namespace hadal {

struct Model::Impl {
  Impl(const Checkpoint& checkpoint, Backend& device, const LoadOptions& options)
      : backend(device),
        spec(checkpoint.spec()),
        rope(spec.rope),
        loaded(LoadWeights(checkpoint, device, options)) {}

  Backend& backend;
  const ModelSpec spec;
  const RopeTable rope;
  const LoadedWeights loaded;
  StepLimits limits;
  Buffer buffer;            // all activations
  Activations activations;  // views into it, at full size
  RopeRows rope_rows;
};

Model Model::Load(const Checkpoint& checkpoint, Backend& backend, const LoadOptions& options) {
  return Model(std::make_unique<Impl>(checkpoint, backend, options));
}

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

uint64_t Model::ActivationBytes(const ModelSpec& spec, const StepLimits& limits) {
  uint64_t bytes = 0;
  LayOutActivations(spec, limits, nullptr, &bytes);
  return bytes;
}

void Model::Reserve(const StepLimits& limits) {
  impl_->backend.Reserve(impl_->spec, limits);
  impl_->limits = limits;
  impl_->buffer = impl_->backend.Allocate(ActivationBytes(impl_->spec, limits));
  uint64_t bytes = 0;
  impl_->activations =
      LayOutActivations(impl_->spec, limits, static_cast<std::byte*>(impl_->buffer.data()), &bytes);
  impl_->rope_rows.Reserve(impl_->rope, limits.max_tokens);
}

Tensor Model::Forward(const StepInput& step, KvCache& kv, const Taps* taps) {
  Impl& model = *impl_;
  const uint32_t n = step.n_tokens();
  HADAL_CHECK(n > 0 && n <= model.limits.max_tokens && step.positions.size() == n);
  HADAL_CHECK(step.logit_rows.size() <= model.limits.max_logit_rows);
  HADAL_CHECK(step.rope_lengths.size() == (model.rope.length_dependent() ? n : 0));

  const Activations a = model.activations.Rows(n, static_cast<uint32_t>(step.logit_rows.size()));
  const BlockContext context{model.backend, model.spec, a, taps};
  const ModelWeights& weights = model.loaded.weights;

  model.backend.BeginStep(step, kv);
  model.rope_rows.Write(model.rope, step, model.backend, model.buffer, a.cos, a.sin);
  model.backend.Embed(*weights.embed, step.tokens, a.x);
  for (uint32_t layer = 0; layer < model.spec.n_layers; ++layer) {
    DecoderLayer(context, weights.layers[layer], layer, layer == 0 ? Tensor() : a.delta);
  }
  const Tensor logits = LogitsHead(context, weights, step.logit_rows);
  model.backend.EndStep();
  return logits;
}

const ModelSpec& Model::spec() const {
  return impl_->spec;
}
const RopeTable& Model::rope() const {
  return impl_->rope;
}
Backend& Model::backend() {
  return impl_->backend;
}

ModelBytes Model::bytes() const {
  return {impl_->loaded.bytes, impl_->buffer.size(), impl_->loaded.step_bytes};
}

const LoadOutcome& Model::load_outcome() const {
  return impl_->loaded.outcome;
}

std::string Describe(const LoadOutcome& outcome) {
  const std::string file = outcome.file.string();
  if (outcome.from_cache)
    return fmt::format("weights read from {} in {:.2f} s", file, outcome.seconds);
  std::string text = fmt::format("weights packed in {:.2f} s", outcome.seconds);
  if (!file.empty()) return text + ", kept in " + file;
  return outcome.why_not_kept.empty() ? text : text + ", not kept: " + outcome.why_not_kept;
}

KvCache AllocateKvCache(Backend& backend, const KvLayout& layout, std::span<const uint32_t> pages) {
  HADAL_CHECK(pages.size() == layout.groups.size());
  KvCache kv;
  kv.layout = layout;
  for (size_t g = 0; g < pages.size(); ++g) {
    kv.arenas.push_back(backend.Allocate(layout.groups[g].page_bytes * pages[g]));
  }
  return kv;
}

KvCache AllocateKvCache(Backend& backend, const KvLayout& layout, uint32_t pages) {
  return AllocateKvCache(backend, layout, std::vector<uint32_t>(layout.groups.size(), pages));
}

}  // namespace hadal
