// A file of byte strings, written once from front to back and read back piece by piece, by many
// threads, straight to where the bytes belong.
//
//   [0, 64)      header: magic, sizes, a checksum over header and index
//   blobs        each at a multiple of 4096
//   index        key; bytes of each blob; a checksum of each chunk of each blob
//
// The header is written last, so a file that was not finished is none. Everything is little-endian.
// Files are read, never mapped: one that shrinks meanwhile is an error, not a SIGBUS.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"

namespace hadal {

// The part of a blob that has its own checksum and is read at once: a huge page, so that threads
// which fill memory chunk by chunk do not meet on one.
inline constexpr uint64_t kBlobChunk = uint64_t{2} << 20;

// Used by one thread. After an Error only the destructor may be called.
class BlobWriter {
 public:
  // Writes to an empty file; `path` is for messages. The file is opened and closed by others.
  BlobWriter(int fd, std::filesystem::path path) : fd_(fd), path_(std::move(path)) {}

  // Throws Error(kResource) when the disk is full, Error(kIo) when it cannot be written.
  void Append(std::span<const std::byte> blob);
  // Writes index and header. `key` says what the blobs are. Throws as Append.
  void Finish(const std::string& key);

 private:
  void Write(std::span<const std::byte> bytes, uint64_t at);

  int fd_;
  std::filesystem::path path_;
  uint64_t end_ = 4096;  // of what is written
  uint64_t flushed_ = 0;
  std::vector<uint64_t> sizes_;
  std::vector<uint64_t> checksums_;
};

// Thread-safe to read.
class BlobReader {
 public:
  // Checks header and index. `path` is for messages. Throws Error(kBadFile) when they are damaged
  // or the file is cut, Error(kIo).
  BlobReader(FileDescriptor fd, std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  const std::string& key() const { return key_; }
  size_t size() const { return sizes_.size(); }
  // Throws Error(kBadFile) when there is no such blob.
  uint64_t bytes(size_t blob) const;
  // Quickest from front to back. Fills `to` with the blob's bytes from chunk * kBlobChunk on: a
  // whole chunk, or what is left of the blob. Throws Error(kBadFile) when they are not what was
  // written, Error(kIo).
  void ReadChunk(size_t blob, uint64_t chunk, std::span<std::byte> to) const;

 private:
  void ReadIndex(std::span<const std::byte> index, uint64_t key_bytes, uint64_t n_blobs,
                 uint64_t blobs_end);
  void ReadAt(std::span<std::byte> to, uint64_t at) const;
  void ReadAhead(uint64_t at) const;

  FileDescriptor fd_;
  std::filesystem::path path_;
  std::string key_;
  std::vector<uint64_t> sizes_;
  std::vector<uint64_t> starts_;
  std::vector<uint64_t> checksums_;
  std::vector<size_t> first_checksums_;
  mutable std::atomic<uint64_t> ahead_{0};  // what the system was asked to read ends here
};

}  // namespace hadal
