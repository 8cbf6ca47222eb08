#include "kv/swap_space.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>

#include "base/check.h"
#include "base/error.h"

namespace hadal {
namespace {

[[noreturn]] void FailSystem(const std::filesystem::path& directory, uint64_t bytes,
                             const char* what, int error) {
  Fail(error == ENOSPC || error == EFBIG || error == ENOMEM ? ErrorKind::kResource : ErrorKind::kIo,
       "swap space of {} bytes in {}: cannot {}: {}; choose another --swap-path or a smaller "
       "--swap-space",
       bytes, directory.string(), what, std::strerror(error));
}

// A file descriptor of a file that no path leads to; -1 with errno.
int OpenUnnamed(const std::filesystem::path& directory) {
  const int fd = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
  std::string path = (directory / "hadal-swap-XXXXXX").string();
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

}  // namespace

SwapSpace::SwapSpace(const std::filesystem::path& directory, uint64_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  const int fd = OpenUnnamed(directory);
  if (fd < 0) FailSystem(directory, bytes, "create a file", errno);
  const int refused = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  void* data =
      refused == 0 ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  const int error = refused != 0 ? refused : errno;
  close(fd);
  if (data == MAP_FAILED) {
    FailSystem(directory, bytes, refused != 0 ? "allocate it" : "map it", error);
  }
  data_ = static_cast<std::byte*>(data);
}

SwapSpace::~SwapSpace() {
  if (data_ != nullptr) munmap(data_, size_);
}

SwapExtents::SwapExtents(uint64_t bytes) : bytes_(bytes) {
  if (bytes > 0) free_[0] = bytes;
}

std::optional<uint64_t> SwapExtents::Allocate(uint64_t bytes) {
  HADAL_CHECK(bytes > 0);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, size] = *it;
    if (size < bytes) continue;
    free_.erase(it);
    if (size > bytes) free_[offset + bytes] = size - bytes;
    used_bytes_ += bytes;
    return offset;
  }
  return std::nullopt;
}

void SwapExtents::Free(uint64_t offset, uint64_t bytes) {
  HADAL_CHECK(bytes > 0 && bytes <= used_bytes_);
  auto next = free_.lower_bound(offset);
  HADAL_CHECK(next == free_.end() || offset + bytes <= next->first);
  used_bytes_ -= bytes;
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    HADAL_CHECK(previous->first + previous->second <= offset);
    if (previous->first + previous->second == offset) {
      previous->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

}  // namespace hadal
