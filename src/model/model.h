// A loaded model: weights on a device and one Forward for every architecture.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "formats/checkpoint.h"
#include "model/pack_cache.h"
#include "spec/rope_table.h"

namespace hadal {

// What an observer may see of a step. Absent taps cost nothing.
struct Taps {
  // The residual stream: `stage` 0 is the embedding, i + 1 follows layer i, n_layers + 1 the final
  // norm. Values [n_tokens, hidden].
  std::function<void(uint32_t stage, Tensor values)> hidden;
  // Experts chosen in a MoE layer, [n_tokens, n_used] each, best first.
  std::function<void(uint32_t layer, uint32_t n_tokens, const Routing& routing)> routing;
  // Every op's output in turn, named in words ("keys", "attention output"); layer n_layers stands
  // for what follows the last layer.
  std::function<void(uint32_t layer, std::string_view what, Tensor values)> values;
};

struct LoadOptions {
  WeightPolicy policy = WeightPolicy::kAsStored;
  // Called after each tensor with bytes done and in all (packed); may throw Error(kCancelled).
  // Begins anew when kept weights turn out to be damaged.
  std::function<void(uint64_t done, uint64_t total)> progress;
  // Where packed weights are kept for the next start.
  PackCacheOptions cache;
};

// How the weights came to be.
struct LoadOutcome {
  double seconds = 0;
  bool from_cache = false;     // read from `file`, else packed
  std::filesystem::path file;  // where they are kept; empty: nowhere
  std::string why_not_kept;    // empty where nothing was to be kept
};

// "weights packed in 1.2 s, kept in /home/a/.cache/hadal/packed/model-0123456789abcdef.packed"
std::string Describe(const LoadOutcome& outcome);

// Exactly the bytes of packed weights that Load would allocate, without reading any weight.
uint64_t PlanWeightBytes(const Checkpoint& checkpoint, const Backend& backend, WeightPolicy policy);

// Bytes by category, exact.
struct ModelBytes {
  uint64_t weights = 0;       // packed, all of them
  uint64_t activations = 0;   // fixed buffers of Forward
  uint64_t step_weights = 0;  // weights one decoded token reads (only the chosen experts)
};

// Used by one thread at a time. The backend must outlive it.
class Model {
 public:
  // Uploads every tensor, releasing the file's pages behind it, or reads what an earlier load made
  // of them, which gives the same bytes. Throws Error.
  static Model Load(const Checkpoint& checkpoint, Backend& backend, const LoadOptions& options);
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  // Exactly the bytes of activations that Reserve would allocate.
  static uint64_t ActivationBytes(const ModelSpec& spec, const StepLimits& limits);

  // Allocates the activations for steps within `limits` (and reserves the backend's workspace).
  // Must be called once before Forward.
  void Reserve(const StepLimits& limits);

  // Runs one step and stores its tokens' KV. Returns logits [step.logit_rows, vocab] in memory that
  // the next call overwrites; host-readable.
  Tensor Forward(const StepInput& step, KvCache& kv, const Taps* taps = nullptr);

  const ModelSpec& spec() const;
  const RopeTable& rope() const;
  Backend& backend();
  ModelBytes bytes() const;
  const LoadOutcome& load_outcome() const;

 private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The KV arenas for pages[g] pages in group g, allocated and zeroed.
KvCache AllocateKvCache(Backend& backend, const KvLayout& layout, std::span<const uint32_t> pages);
// The same number in every group.
KvCache AllocateKvCache(Backend& backend, const KvLayout& layout, uint32_t pages);

}  // namespace hadal
