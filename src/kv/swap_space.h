// Where the pages of preempted sequences wait: a file on disk, and who has which part of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>

namespace hadal {

// A file without a name, mapped into memory, that vanishes with the process. Every byte is
// allocated on disk from the start, so that a full disk is an error here and never a SIGBUS later.
class SwapSpace {
 public:
  // `directory` must exist and lie on a disk (in a tmpfs the swap space takes memory after all).
  // Throws Error(kResource) when the disk is too full, Error(kIo) when the system refuses.
  SwapSpace(const std::filesystem::path& directory, uint64_t bytes);
  ~SwapSpace();
  SwapSpace(const SwapSpace&) = delete;
  SwapSpace& operator=(const SwapSpace&) = delete;

  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Extents of [0, bytes), first fit. Pure arithmetic. Used by one thread.
class SwapExtents {
 public:
  explicit SwapExtents(uint64_t bytes);

  // Where `bytes` > 0 fit in one piece; empty when they do not.
  std::optional<uint64_t> Allocate(uint64_t bytes);
  // Exactly what Allocate gave.
  void Free(uint64_t offset, uint64_t bytes);

  uint64_t bytes() const { return bytes_; }
  uint64_t used_bytes() const { return used_bytes_; }

 private:
  uint64_t bytes_;
  uint64_t used_bytes_ = 0;
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes; never adjacent
};

}  // namespace hadal
