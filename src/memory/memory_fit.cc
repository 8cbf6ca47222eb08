#include "memory/memory_fit.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/error.h"
#include "base/search.h"
#include "kv/kv_manager.h"

namespace hadal {
namespace {

constexpr uint64_t kOtherwiseContext = 8192;  // of a model that states none
constexpr uint64_t kMaxUnits = std::numeric_limits<uint32_t>::max() / 8;

uint64_t WantedContext(const MemoryWish& wish) {
  if (wish.context) return *wish.context;
  const uint64_t own = wish.model_context > 0 ? wish.model_context : kOtherwiseContext;
  return wish.default_context > 0 ? std::min(wish.default_context, own) : own;
}

class Fitter {
 public:
  Fitter(const MemoryModel& model, const MemoryWish& wish, const MemoryBudget& budget)
      : model_(model),
        wish_(wish),
        budget_(budget),
        layout_(MakeKvLayout(*model.spec, wish.choice.kv_dtype, wish.choice.block_size)) {
    HADAL_CHECK(wish.choice.limits.max_sequences > 0);
  }

  std::optional<FittedMemory> Fit() const {
    const uint64_t wanted = WantedContext(wish_);
    uint64_t context = wanted;
    if (!Fits(wanted)) {
      if (wish_.context || !Fits(1)) return std::nullopt;
      // In whole blocks: part of one costs as much.
      const uint64_t block = layout_.block_size;
      const uint64_t blocks = Largest(1, std::max<uint64_t>(wanted / block, 1),
                                      [&](uint64_t n) { return Fits(n * block); });
      context = std::min(blocks * block, wanted);
    }
    FittedMemory fitted;
    fitted.choice = With(context);
    fitted.layout = layout_;
    fitted.wanted_context = wanted;
    fitted.pages = Deal(context, Units(context));
    fitted.bytes = PlanMemory(model_, fitted.choice, layout_, fitted.pages);
    return fitted;
  }

 private:
  MemoryChoice With(uint64_t context) const {
    MemoryChoice choice = wish_.choice;
    choice.limits.max_context = context;
    return choice;
  }
  std::vector<uint32_t> Deal(uint64_t context, uint64_t units) const {
    const StepLimits& limits = wish_.choice.limits;
    return DealPages(layout_, limits.max_sequences, limits.max_tokens, context, units);
  }
  uint64_t AllUnits(uint64_t context) const {
    const uint64_t blocks = (context + layout_.block_size - 1) / layout_.block_size;
    return std::min<uint64_t>(blocks, kMaxUnits / wish_.choice.limits.max_sequences) *
           wish_.choice.limits.max_sequences;
  }
  bool Within(uint64_t context, uint64_t units) const {
    return PlanMemory(model_, With(context), layout_, Deal(context, units)).total() <=
           budget_.bytes;
  }

  // What must fit beside everything else so that texts of `context` tokens are possible.
  bool Fits(uint64_t context) const {
    if (context > kMaxUnits) return false;
    if (wish_.all_at_once) return Within(context, AllUnits(context));
    if (!wish_.kv_bytes) return Within(context, 0);
    return KvBytes(layout_, Deal(context, 0)) <= *wish_.kv_bytes && Within(context, Units(context));
  }

  // A pool whose size is given has it. Otherwise it takes what is left, but no more than all
  // sequences can fill.
  uint64_t Units(uint64_t context) const {
    if (wish_.all_at_once) return AllUnits(context);
    if (wish_.kv_bytes) {
      return Largest(0, kMaxUnits, [&](uint64_t units) {
        return KvBytes(layout_, Deal(context, units)) <= *wish_.kv_bytes;
      });
    }
    return Largest(0, AllUnits(context), [&](uint64_t units) { return Within(context, units); });
  }

  const MemoryModel& model_;
  const MemoryWish& wish_;
  const MemoryBudget& budget_;
  const KvLayout layout_;
};

// What is needed at the least, in words, and how far that is from fitting.
[[noreturn]] void Refuse(const MemoryModel& model, const MemoryWish& wish,
                         const MemoryBudget& budget) {
  const FittedMemory least = LeastMemory(model, wish);
  const MemoryBytes& bytes = least.bytes;
  const uint64_t context = least.choice.limits.max_context;
  const uint64_t kv = bytes[MemoryCategory::kKv];
  const uint32_t n = wish.all_at_once ? wish.choice.limits.max_sequences : 1;
  std::string text = fmt::format(
      "not enough memory for {}{}: weights {}, KV {}, buffers {}, everything "
      "else {}, together {}; there are {} ({})",
      wish.context ? fmt::format("a context of {} tokens", context) : "even one page of KV",
      n > 1 ? fmt::format(" in each of {} sequences", n) : "",
      FormatBytes(bytes[MemoryCategory::kWeights]), FormatBytes(kv),
      FormatBytes(bytes[MemoryCategory::kActivations] + bytes[MemoryCategory::kLogits] +
                  bytes[MemoryCategory::kWorkspace]),
      FormatBytes(bytes[MemoryCategory::kTokenizer] + bytes[MemoryCategory::kOverhead]),
      FormatBytes(bytes.total()), FormatBytes(budget.bytes), budget.whence);
  if (wish.kv_bytes && KvBytes(least.layout, least.pages) > *wish.kv_bytes) {
    text =
        fmt::format("a context of {} tokens needs {} of KV, more than --kv-memory {}", context,
                    FormatBytes(KvBytes(least.layout, least.pages)), FormatBytes(*wish.kv_bytes));
  }
  const std::string nearest = NearestFits(model, wish, budget);
  text += nearest.empty() ? "; a smaller model is needed" : "; it would fit with " + nearest;
  Fail(ErrorKind::kResource, "{}", text);
}

}  // namespace

MemoryBudget BudgetOf(const AvailableMemory& available, double utilization) {
  const uint64_t all = available.bytes + AnonymousBytes();
  const auto bytes = static_cast<uint64_t>(static_cast<double>(all) * utilization);
  return {bytes, fmt::format("{:g} % of the {} that {} has left", 100 * utilization,
                             FormatBytes(all), available.limited_by)};
}

uint64_t FittedMemory::Sequences(uint64_t tokens) const {
  uint64_t sequences = std::numeric_limits<uint64_t>::max();
  const std::vector<uint32_t> each = PagesPerGroup(layout, 1, tokens, choice.limits.max_tokens);
  for (size_t g = 0; g < pages.size(); ++g) {
    sequences = std::min<uint64_t>(sequences, pages[g] / std::max(each[g], 1u));
  }
  return sequences;
}

std::optional<FittedMemory> TryFitMemory(const MemoryModel& model, const MemoryWish& wish,
                                         const MemoryBudget& budget) {
  return Fitter(model, wish, budget).Fit();
}

FittedMemory LeastMemory(const MemoryModel& model, const MemoryWish& wish) {
  FittedMemory least;
  least.choice = wish.choice;
  StepLimits& limits = least.choice.limits;
  limits.max_context = least.wanted_context = wish.context.value_or(1);
  least.layout = MakeKvLayout(*model.spec, least.choice.kv_dtype, least.choice.block_size);
  least.pages = PagesPerGroup(least.layout, wish.all_at_once ? limits.max_sequences : 1,
                              limits.max_context, limits.max_tokens);
  least.bytes = PlanMemory(model, least.choice, least.layout, least.pages);
  uint64_t& kv = least.bytes[MemoryCategory::kKv];
  kv = std::max(kv, wish.kv_bytes.value_or(0));
  return least;
}

FittedMemory FitMemory(const MemoryModel& model, const MemoryWish& wish,
                       const MemoryBudget& budget) {
  if (wish.context && *wish.context == 0) {
    Fail(ErrorKind::kUsage, "a context of 0 tokens holds nothing");
  }
  if (wish.context && wish.model_context > 0 && *wish.context > wish.model_context) {
    Fail(ErrorKind::kUsage, "a context of {} tokens is beyond the {} that the model supports",
         *wish.context, wish.model_context);
  }
  if (std::optional<FittedMemory> fitted = TryFitMemory(model, wish, budget)) return *fitted;
  Refuse(model, wish, budget);
}

}  // namespace hadal
