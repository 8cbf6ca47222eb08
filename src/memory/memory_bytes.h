// The categories into which every byte of a running model falls, and sums over them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hadal {

enum class MemoryCategory : uint8_t {
  kWeights,      // packed
  kKv,           // the arenas of all groups
  kActivations,  // the model's buffers, without the logits
  kLogits,       // [max_logit_rows, vocab] f32
  kWorkspace,    // the backend's scratch space
  kTokenizer,    // its tables
  kOverhead,     // code, threads, bookkeeping: what any process like this one takes
  kSwap,         // a file on disk, not memory
};
inline constexpr size_t kMemoryCategories = 8;
inline constexpr std::array<MemoryCategory, kMemoryCategories> kAllMemoryCategories = {
    MemoryCategory::kWeights,  MemoryCategory::kKv,        MemoryCategory::kActivations,
    MemoryCategory::kLogits,   MemoryCategory::kWorkspace, MemoryCategory::kTokenizer,
    MemoryCategory::kOverhead, MemoryCategory::kSwap};

// "weights", "kv", ...: as the metrics name them.
std::string_view Name(MemoryCategory category);

class MemoryBytes {
 public:
  uint64_t& operator[](MemoryCategory category) { return bytes_[static_cast<size_t>(category)]; }
  uint64_t operator[](MemoryCategory category) const {
    return bytes_[static_cast<size_t>(category)];
  }
  // What the process takes of the machine's memory: everything but the swap file.
  uint64_t total() const;

  friend bool operator==(const MemoryBytes&, const MemoryBytes&) = default;

 private:
  std::array<uint64_t, kMemoryCategories> bytes_{};
};

// Stay at the largest number instead of going beyond: files may claim any dimensions.
uint64_t SaturatedSum(uint64_t a, uint64_t b);
uint64_t SaturatedProduct(uint64_t a, uint64_t b);

// "1.5 GiB", "312.0 MiB", "12 KiB", "7 B".
std::string FormatBytes(uint64_t bytes);

}  // namespace hadal
