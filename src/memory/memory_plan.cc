#include "memory/memory_plan.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "kv/kv_manager.h"

namespace hadal {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Measured: libraries' data, the allocator's own, templates, tables of characters. Code and
// whatever else lies in files is the system's to keep or drop.
constexpr uint64_t kProcessBytes = 2 * kMiB;
// A thread's touched stack and its first piece of the allocator's memory.
constexpr uint64_t kThreadBytes = kMiB / 8;
// A sequence: its connection's buffers, the state of its request.
constexpr uint64_t kSequenceBytes = kMiB / 32;
constexpr uint32_t kMostSamplers = 16;
// A sampler: scores, candidates, counts, a heap.
constexpr uint64_t kSamplerBytesPerToken = 40;
// A page: its place in the free list, in page tables and in the index of known blocks.
constexpr uint64_t kBytesPerPage = 48;
// A known block: its node, its tokens' and pages' arrays; and a running sequence's tokens, as ids
// and as text.
constexpr uint64_t kBytesPerBlock = 192;
constexpr uint64_t kBytesPerSlot = 16;

}  // namespace

uint32_t ConcurrentSamplers(const Backend& backend, const StepLimits& limits) {
  const auto threads = static_cast<uint32_t>(std::max(backend.host_threads(), 1));
  return std::max(std::min({threads, limits.max_sequences, kMostSamplers}), 1u);
}

uint64_t KvBytes(const KvLayout& layout, std::span<const uint32_t> pages) {
  HADAL_CHECK(pages.size() == layout.groups.size());
  uint64_t bytes = 0;
  for (size_t g = 0; g < pages.size(); ++g) {
    bytes = SaturatedSum(bytes, SaturatedProduct(layout.groups[g].page_bytes, pages[g]));
  }
  return bytes;
}

uint64_t OverheadBytes(const MemoryModel& model, const MemoryChoice& choice, const KvLayout& layout,
                       std::span<const uint32_t> pages) {
  const StepLimits& limits = choice.limits;
  uint64_t n_pages = 0, n_blocks = 0;
  for (const uint32_t n : pages) {
    n_pages += n;
    n_blocks = std::max<uint64_t>(n_blocks, n);
  }
  const uint64_t per_row = 16 + 8 * pages.size() + uint64_t{model.spec->rope.dim} * sizeof(float);
  return kProcessBytes + model.n_threads * kThreadBytes + limits.max_sequences * kSequenceBytes +
         kSamplerBytesPerToken * model.spec->vocab * ConcurrentSamplers(*model.backend, limits) +
         limits.max_tokens * per_row + n_pages * kBytesPerPage +
         n_blocks * (kBytesPerBlock + layout.block_size * kBytesPerSlot);
}

MemoryBytes PlanMemory(const MemoryModel& model, const MemoryChoice& choice, const KvLayout& layout,
                       std::span<const uint32_t> pages) {
  const StepLimits& limits = choice.limits;
  const uint64_t activations = model.activation_bytes(limits);
  const uint64_t logits = uint64_t{limits.max_logit_rows} * model.spec->vocab * sizeof(float);
  HADAL_CHECK(activations >= logits);
  MemoryBytes bytes;
  bytes[MemoryCategory::kWeights] = model.weight_bytes(choice.weights);
  bytes[MemoryCategory::kKv] = KvBytes(layout, pages);
  bytes[MemoryCategory::kActivations] = activations - logits;
  bytes[MemoryCategory::kLogits] = logits;
  bytes[MemoryCategory::kWorkspace] = model.backend->WorkspaceBytes(*model.spec, limits);
  bytes[MemoryCategory::kTokenizer] = model.tokenizer_bytes;
  bytes[MemoryCategory::kOverhead] = OverheadBytes(model, choice, layout, pages);
  bytes[MemoryCategory::kSwap] = choice.swap_bytes;
  return bytes;
}

std::vector<uint32_t> DealPages(const KvLayout& layout, uint32_t n_sequences, uint32_t max_chunk,
                                uint64_t context, uint64_t units) {
  HADAL_CHECK(n_sequences > 0);
  const uint64_t deep = units / n_sequences, deeper = units % n_sequences;
  const auto each = [&](uint64_t tokens) { return PagesPerGroup(layout, 1, tokens, max_chunk); };
  std::vector<uint32_t> pages = each(context);
  const std::vector<uint32_t> low = each(deep * layout.block_size);
  const std::vector<uint32_t> high = each((deep + 1) * layout.block_size);
  for (size_t g = 0; g < pages.size(); ++g) {
    const uint64_t dealt = (n_sequences - deeper) * low[g] + deeper * high[g];
    pages[g] = static_cast<uint32_t>(
        std::clamp<uint64_t>(dealt, pages[g], std::numeric_limits<uint32_t>::max() / 4));
  }
  return pages;
}

}  // namespace hadal
