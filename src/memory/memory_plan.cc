#include "memory/memory_plan.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/error.h"

namespace hadal {
namespace {

uint64_t Blocks(const KvLayout& layout, uint64_t tokens) {
  return tokens / layout.block_size + (tokens % layout.block_size != 0);
}

uint64_t PageBytes(const KvLayout& layout) {
  uint64_t bytes = 0;
  for (const KvGroup& group : layout.groups) bytes += group.page_bytes;
  return bytes;
}

}  // namespace

MemoryPlan PlanFixedMemory(const ModelSpec& spec, const StepLimits& limits, const Backend& backend,
                           uint64_t model_weights, uint64_t model_activations) {
  MemoryPlan plan;
  plan.weights = model_weights;
  plan.logits = uint64_t{limits.max_logit_rows} * spec.vocab * sizeof(float);
  HADAL_CHECK(model_activations >= plan.logits);
  plan.activations = model_activations - plan.logits;
  plan.workspace = backend.WorkspaceBytes(spec, limits);
  return plan;
}

uint64_t KvBytes(const KvLayout& layout, uint64_t pages) {
  return pages * PageBytes(layout);
}

KvChoice ChooseKv(const KvLayout& layout, const MemoryPlan& plan, const AvailableMemory& available,
                  const KvWish& wish) {
  HADAL_CHECK(wish.max_sequences > 0 && PageBytes(layout) > 0);
  if (wish.context == 0) Fail(ErrorKind::kUsage, "a context of 0 tokens holds nothing");
  if (wish.context && wish.model_context > 0 && *wish.context > wish.model_context) {
    Fail(ErrorKind::kUsage, "a context of {} tokens is beyond the {} that the model supports",
         *wish.context, wish.model_context);
  }
  const uint64_t usable = available.bytes - available.bytes / 20;
  const uint64_t left = usable > plan.fixed() ? usable - plan.fixed() : 0;
  // Every sequence gets whole pages of its own.
  const uint64_t sequence_page_bytes = PageBytes(layout) * wish.max_sequences;
  constexpr uint64_t kMaxPages = std::numeric_limits<uint32_t>::max() / 4;
  const uint64_t fitting =
      std::min(left / sequence_page_bytes, kMaxPages / wish.max_sequences) * layout.block_size;
  if (fitting == 0) {
    Fail(ErrorKind::kResource,
         "not enough memory: weights and buffers need {} and one page of KV {}, but {} leaves {}; "
         "a smaller model, --weights q4 or fewer sequences need less",
         FormatBytes(plan.fixed()), FormatBytes(sequence_page_bytes), available.limited_by,
         FormatBytes(usable));
  }
  uint64_t context = wish.context.value_or(std::min(
      wish.default_context, wish.model_context > 0 ? wish.model_context : wish.default_context));
  if (wish.context && Blocks(layout, context) * layout.block_size > fitting) {
    Fail(
        ErrorKind::kResource,
        "not enough memory for a context of {} tokens: {} of KV and {} of weights and buffers, but "
        "{} leaves {}; a context of up to {} tokens fits (--ctx {})",
        context, FormatBytes(Blocks(layout, context) * sequence_page_bytes),
        FormatBytes(plan.fixed()), available.limited_by, FormatBytes(usable), fitting, fitting);
  }
  context = std::min(context, fitting);
  const uint64_t pages = Blocks(layout, context) * wish.max_sequences;
  return {context, static_cast<uint32_t>(pages), KvBytes(layout, pages)};
}

std::string FormatBytes(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= uint64_t{1} << 30) return fmt::format("{:.1f} GiB", value / (1 << 30));
  if (bytes >= uint64_t{1} << 20) return fmt::format("{:.1f} MiB", value / (1 << 20));
  if (bytes >= 1024) return fmt::format("{} KiB", (bytes + 512) / 1024);
  return fmt::format("{} B", bytes);
}

std::string Describe(const MemoryPlan& plan) {
  return fmt::format("weights {}, KV {}, activations {}, logits {}, workspace {}, total {}",
                     FormatBytes(plan.weights), FormatBytes(plan.kv), FormatBytes(plan.activations),
                     FormatBytes(plan.logits), FormatBytes(plan.workspace),
                     FormatBytes(plan.total()));
}

}  // namespace hadal
