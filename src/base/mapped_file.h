// A whole file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace hadal {

// What the system tells files and their states apart by. Times in nanoseconds since 1970.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t modified = 0;
  int64_t changed = 0;  // content, name or attributes

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// Move-only owner of the mapping; views into bytes() die with it. Thread-safe to read.
class MappedFile {
 public:
  // Throws Error(kNotFound | kIo) with the path and the system's reason. An empty file maps to an
  // empty span. A file that shrinks while mapped ends the process (SIGBUS), as with any mmap.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }
  // As it was when the file was mapped.
  const FileIdentity& identity() const { return identity_; }
  // The path still leads to the same file in the same state.
  bool Unchanged() const;

  // Tells the system that [offset, offset + size) is not needed soon, so that a loader which has
  // packed a tensor does not keep the file's pages resident.
  void DropPages(size_t offset, size_t size) const;

 private:
  std::filesystem::path path_;
  FileIdentity identity_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Reads a whole small file; throws Error(kNotFound | kIo), and kBadFile above `max_bytes`.
std::string ReadTextFile(const std::filesystem::path& path, size_t max_bytes = size_t{1} << 30);

}  // namespace hadal
