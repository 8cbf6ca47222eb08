#include "quant/panel_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "quant/panel.h"

namespace hadal {
namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;
// Smaller matrices take their bytes alone, no part of a huge page.
constexpr uint64_t kShareFrom = uint64_t{64} << 10;
// What is left at the end of a slab costs nothing but the rest of a huge page.
constexpr uint64_t kFirstSlab = 4 * kHugePage;
constexpr uint64_t kLargestSlab = 128 * kHugePage;

// Zeroed memory on a huge-page boundary, or null. The slack of the mapping is returned.
std::shared_ptr<std::byte> MapHuge(uint64_t bytes) {
  void* mapped = ::mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* start = static_cast<std::byte*>(mapped);
  const auto address = reinterpret_cast<uintptr_t>(start);
  const uint64_t head = AlignUp(address, kHugePage) - address;
  if (head != 0) ::munmap(start, head);
  if (head != kHugePage) ::munmap(start + head + bytes, kHugePage - head);
  // Advice only: without huge pages everything still works.
  static_cast<void>(::madvise(start + head, bytes, MADV_HUGEPAGE));
  return {start + head, [bytes](std::byte* data) { ::munmap(data, bytes); }};
}

}  // namespace

std::shared_ptr<std::byte> PanelArena::Take(uint64_t bytes) {
  if (bytes < kShareFrom) {
    std::shared_ptr<std::byte> data(static_cast<std::byte*>(std::aligned_alloc(
                                        kPanelAlignment, AlignUp(bytes, kPanelAlignment))),
                                    std::free);  // NOLINT: the pair of aligned_alloc
    if (data == nullptr) Fail(ErrorKind::kResource, "no memory for {} bytes of weights", bytes);
    std::memset(data.get(), 0, bytes);
    return data;
  }
  if (bytes > slab_bytes_ - used_) {
    const uint64_t next = std::clamp(2 * slab_bytes_, kFirstSlab, kLargestSlab);
    slab_bytes_ = AlignUp(std::max(bytes, next), kHugePage);
    used_ = 0;
    slab_ = MapHuge(slab_bytes_);
    if (slab_ == nullptr) {
      slab_bytes_ = 0;
      Fail(ErrorKind::kResource, "no memory for {} bytes of weights", bytes);
    }
    if (nodes_ != nullptr) nodes_->Spread(slab_.get(), slab_bytes_);
  }
  const std::shared_ptr<std::byte> taken(slab_, slab_.get() + used_);
  used_ += AlignUp(bytes, kPanelAlignment);
  return taken;
}

}  // namespace hadal
