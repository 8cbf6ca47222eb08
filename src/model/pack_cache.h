// Packed weights of earlier starts, one file per model and weight policy in one folder.
//
// A file is used only while its key is that of the model at hand: the checkpoint's files (path,
// size, times, inode), its directory of tensors, the weight policy and the backend's packed form.
// It is written under another name and renamed when complete. Nothing is flushed to disk: chunks
// have checksums, so what a crash of the machine leaves is found out when it is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "base/blob_file.h"
#include "formats/checkpoint.h"

namespace hadal {

struct PackCacheOptions {
  std::filesystem::path folder;                  // made when missing; empty: nothing is kept
  uint64_t max_bytes = uint64_t{20} << 30;       // of all files together
  uint64_t min_bytes = uint64_t{64} << 20;       // of a model; smaller ones are packed in no time
  std::function<void(const std::string&)> warn;  // of damaged files and full disks
};

// Collects the packed weights of one load. Nothing that goes wrong with it ends loading: it warns
// once and keeps nothing.
class PackWriter {
 public:
  // An open, locked and empty temporary file, and what it is to become.
  PackWriter(FileDescriptor fd, std::filesystem::path temporary, std::filesystem::path path,
             const PackCacheOptions& options);
  // Deletes what was not kept.
  ~PackWriter();
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;

  void Append(const Weight& weight);
  // Makes the file what the next start finds. Returns why not, or an empty text.
  std::string Keep(const std::string& key);

 private:
  template <typename Body>
  void Attempt(Body&& body);

  FileDescriptor fd_;  // its lock tells others that the file is being written
  std::filesystem::path temporary_;
  std::filesystem::path path_;
  const PackCacheOptions& options_;
  BlobWriter writer_;
  std::string failure_;
  bool kept_ = false;
};

// Used by one thread; any number of processes share a folder.
class PackCache {
 public:
  // `options` must outlive the cache and its writers.
  PackCache(const PackCacheOptions& options, const Checkpoint& checkpoint, const Backend& backend,
            WeightPolicy policy);

  // The model's packed weights; null when there are none. A damaged file is told, deleted, and as
  // good as none.
  std::unique_ptr<BlobReader> Open() const;
  // They were used just now: files that were not are the first to go.
  void Touch() const;
  // The file turned out to be damaged while it was read.
  void Discard(const std::string& problem) const;

  // For a model of so many packed bytes; null when it is not to be kept, with the reason in `why`
  // unless the cache is off or the model small.
  std::unique_ptr<PackWriter> Create(uint64_t bytes, std::string& why) const;

  const std::filesystem::path& path() const { return path_; }
  const std::string& key() const { return key_; }

 private:
  const PackCacheOptions& options_;
  std::filesystem::path path_;  // empty: off
  std::string key_;
};

}  // namespace hadal
