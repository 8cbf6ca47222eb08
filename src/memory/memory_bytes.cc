#include "memory/memory_bytes.h"

#include <fmt/format.h>

namespace hadal {

std::string_view Name(MemoryCategory category) {
  constexpr std::array<std::string_view, kMemoryCategories> kNames = {
      "weights", "kv", "activations", "logits", "workspace", "tokenizer", "overhead", "swap"};
  return kNames[static_cast<size_t>(category)];
}

uint64_t MemoryBytes::total() const {
  uint64_t sum = 0;
  for (const MemoryCategory category : kAllMemoryCategories) {
    if (category != MemoryCategory::kSwap) sum = SaturatedSum(sum, (*this)[category]);
  }
  return sum;
}

uint64_t SaturatedSum(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

uint64_t SaturatedProduct(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

std::string FormatBytes(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= uint64_t{1} << 30) return fmt::format("{:.1f} GiB", value / (1 << 30));
  if (bytes >= uint64_t{1} << 20) return fmt::format("{:.1f} MiB", value / (1 << 20));
  if (bytes >= 1024) return fmt::format("{} KiB", (bytes + 512) / 1024);
  return fmt::format("{} B", bytes);
}

}  // namespace hadal
