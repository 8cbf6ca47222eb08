#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/search.h"
#include "memory/memory_fit.h"

namespace hadal {
namespace {

// What an offer leaves room for where no context was asked for.
constexpr uint64_t kUsefulContext = 1024;

// Changes one choice at a time, as little as makes it fit.
class Nearest {
 public:
  Nearest(const MemoryModel& model, const MemoryWish& wish, const MemoryBudget& budget)
      : model_(model),
        given_(wish),
        wish_(wish),
        budget_(budget),
        asked_(wish.context.has_value()) {
    if (asked_) return;
    const uint64_t own = wish.model_context > 0 ? wish.model_context : kUsefulContext;
    wish_.context = std::min(kUsefulContext, own);
  }

  std::string Offers() {
    Context();
    KvMemory();
    KvType();
    Sequences();
    Chunk();
    Weights();
    if (offers_.empty()) Together();
    return fmt::format("{}", fmt::join(offers_, ", or "));
  }

 private:
  std::optional<FittedMemory> Fit(const MemoryWish& wish) const {
    return TryFitMemory(model_, wish, budget_);
  }
  uint64_t TokenBytes(DType dtype) const {
    return MakeKvLayout(*model_.spec, dtype, wish_.choice.block_size).bytes_per_token();
  }
  // As if no context had been asked for.
  static MemoryWish AnyContext(MemoryWish wish) {
    wish.default_context = *wish.context;
    wish.context.reset();
    return wish;
  }
  static MemoryWish WithSequences(MemoryWish wish, uint64_t n) {
    StepLimits& limits = wish.choice.limits;
    // One row of logits for each, and those for drafts.
    const uint32_t more =
        limits.max_logit_rows - std::min(limits.max_logit_rows, limits.max_sequences);
    limits.max_sequences = static_cast<uint32_t>(n);
    limits.max_logit_rows = limits.max_sequences + more;
    return wish;
  }
  static MemoryWish WithChunk(MemoryWish wish, uint64_t n) {
    wish.choice.limits.max_tokens = static_cast<uint32_t>(n);
    return wish;
  }

  void Context() {
    if (!asked_) return;
    if (const auto fitted = Fit(AnyContext(wish_))) {
      offers_.push_back(
          fmt::format("{} {}", wish_.names.context, fitted->choice.limits.max_context));
    }
  }

  // What is left for the pool, or would do for all sequences, in whole MiB.
  void KvMemory() {
    if (!given_.kv_bytes) return;
    MemoryWish any = given_;
    any.kv_bytes.reset();
    const auto fitted = Fit(any);
    if (!fitted) return;
    const uint64_t mib = fitted->bytes[MemoryCategory::kKv] >> 20;
    any.kv_bytes = mib << 20;
    if (mib << 20 != *given_.kv_bytes && Fit(any)) {
      offers_.push_back(fmt::format("--kv-memory {}m", mib));
    }
  }

  void KvType() {
    for (const auto& [name, dtype] : {hadal::KvType{"bf16", DType::kBF16}, {"int8", DType::kI8}}) {
      if (TokenBytes(dtype) >= TokenBytes(wish_.choice.kv_dtype)) continue;
      MemoryWish smaller = wish_;
      smaller.choice.kv_dtype = dtype;
      if (!Fit(smaller)) continue;
      offers_.push_back(fmt::format("--kv-dtype {}", name));
      return;
    }
  }

  void Sequences() {
    const uint32_t n = wish_.choice.limits.max_sequences;
    const auto fits = [&](uint64_t fewer) { return Fit(WithSequences(wish_, fewer)).has_value(); };
    if (wish_.names.sequences.empty() || n == 1 || !fits(1)) return;
    offers_.push_back(fmt::format("{} {}", wish_.names.sequences, Largest(1, n - 1, fits)));
  }

  void Chunk() {
    const StepLimits& limits = wish_.choice.limits;
    const uint64_t least = std::max(limits.max_sequences, 16u);
    const auto fits = [&](uint64_t fewer) { return Fit(WithChunk(wish_, fewer)).has_value(); };
    if (limits.max_tokens <= least || !fits(least)) return;
    offers_.push_back(
        fmt::format("{} {}", wish_.names.chunk, Largest(least, limits.max_tokens - 1, fits)));
  }

  void Weights() {
    for (const auto& [option, policy] : LighterWeights()) {
      MemoryWish lighter = wish_;
      lighter.choice.weights = policy;
      if (!Fit(lighter)) continue;
      offers_.push_back(option);
      return;
    }
  }
  std::vector<std::pair<const char*, WeightPolicy>> LighterWeights() const {
    const WeightPolicy now = wish_.choice.weights;
    // --dtype and --weights exclude each other.
    if (now == WeightPolicy::kF32 || now == WeightPolicy::kBf16) {
      return {{"--dtype auto", WeightPolicy::kAsStored}};
    }
    if (now == WeightPolicy::kQ4) return {};
    if (now == WeightPolicy::kQ8) return {{"--weights q4", WeightPolicy::kQ4}};
    return {{"--weights q8", WeightPolicy::kQ8}, {"--weights q4", WeightPolicy::kQ4}};
  }

  // When no single change is enough: one after the other, until it fits.
  void Together() {
    MemoryWish least = wish_;
    std::vector<std::string> changes;
    const StepLimits& limits = least.choice.limits;
    if (!wish_.names.sequences.empty() && limits.max_sequences > 1) {
      least = WithSequences(least, 1);
      changes.push_back(fmt::format("{} 1", wish_.names.sequences));
    }
    if (limits.max_tokens > std::max(limits.max_sequences, 64u) && !Fit(least)) {
      least = WithChunk(least, std::max(limits.max_sequences, 64u));
      changes.push_back(fmt::format("{} {}", wish_.names.chunk, limits.max_tokens));
    }
    if (TokenBytes(DType::kI8) < TokenBytes(least.choice.kv_dtype) && !Fit(least)) {
      least.choice.kv_dtype = DType::kI8;
      changes.emplace_back("--kv-dtype int8");
    }
    least = AnyContext(least);
    for (const auto& [option, policy] : LighterWeights()) {
      if (Fit(least)) break;
      least.choice.weights = policy;
      if (Fit(least)) changes.emplace_back(option);
    }
    const auto fitted = Fit(least);
    if (!fitted) return;
    changes.push_back(fmt::format("{} {}", wish_.names.context, fitted->choice.limits.max_context));
    offers_.push_back(fmt::format("{} (all of it)", fmt::join(changes, " ")));
  }

  const MemoryModel& model_;
  const MemoryWish& given_;
  MemoryWish wish_;  // the same with a context
  const MemoryBudget& budget_;
  const bool asked_;  // for that context
  std::vector<std::string> offers_;
};

}  // namespace

std::string NearestFits(const MemoryModel& model, const MemoryWish& wish,
                        const MemoryBudget& budget) {
  return Nearest(model, wish, budget).Offers();
}

}  // namespace hadal
