#include "cli/memory_report.h"

#include <fmt/format.h>

#include "memory/available_memory.h"

namespace hadal::cli {

MemoryBytes ReservedMemory(const Session& session, uint64_t tokenizer_bytes) {
  const ModelBytes model = session.model.bytes();
  const StepLimits& limits = session.limits();
  MemoryBytes bytes;
  bytes[MemoryCategory::kWeights] = model.weights;
  for (const Buffer& arena : session.kv.arenas) bytes[MemoryCategory::kKv] += arena.size();
  const uint64_t logits = uint64_t{limits.max_logit_rows} * session.spec().vocab * sizeof(float);
  bytes[MemoryCategory::kLogits] = logits;
  bytes[MemoryCategory::kActivations] = model.activations - logits;
  bytes[MemoryCategory::kWorkspace] = session.backend->WorkspaceBytes(session.spec(), limits);
  bytes[MemoryCategory::kTokenizer] = tokenizer_bytes;
  const uint64_t told = model.weights + tokenizer_bytes;
  const uint64_t taken = AnonymousBytes();
  bytes[MemoryCategory::kOverhead] = taken > told ? taken - told : 0;
  if (session.swap) bytes[MemoryCategory::kSwap] = session.swap->bytes().size();
  return bytes;
}

void ReportMemory(const MemoryBytes& planned, const MemoryBytes& reserved, Metrics& metrics) {
  for (const MemoryCategory category : kAllMemoryCategories) {
    const LabelValues label{Name(category)};
    const auto bytes = static_cast<double>(reserved[category]);
    metrics.Set(Gauge::kPlannedBytes, static_cast<double>(planned[category]), label);
    metrics.Set(Gauge::kReservedBytes, bytes, label);
    if (category != MemoryCategory::kKv && category != MemoryCategory::kSwap) {
      metrics.Set(Gauge::kUsedBytes, bytes, label);
    }
  }
}

std::string DescribeMemory(const MemoryBytes& bytes) {
  std::string text;
  for (const MemoryCategory category : kAllMemoryCategories) {
    if (bytes[category] == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", Name(category),
                        FormatBytes(bytes[category]));
  }
  return fmt::format("{}; {} of memory together", text, FormatBytes(bytes.total()));
}

}  // namespace hadal::cli
