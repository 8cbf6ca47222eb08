#include "base/blob_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/align.h"
#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"

namespace hadal {
namespace {

constexpr uint64_t kAlignment = 4096;
constexpr uint64_t kMaxIndex = uint64_t{64} << 20;
// Read and summed while it is in the cache.
constexpr uint64_t kPiece = uint64_t{256} << 10;
// Handed to the disk before the system would: dirty pages are memory that nobody planned.
constexpr uint64_t kFlush = uint64_t{32} << 20;

constexpr uint64_t kAhead = uint64_t{32} << 20;

struct Header {
  std::array<char, 8> magic = {'H', 'D', 'L', 'B', 'L', 'O', 'B', '1'};
  uint64_t file_bytes = 0;
  uint64_t index_at = 0;
  uint64_t key_bytes = 0;
  uint64_t n_blobs = 0;
  uint64_t reserved[2] = {};
  uint64_t checksum = 0;  // of the fields above and the index
};
static_assert(sizeof(Header) == 64);

uint64_t Checksum(const Header& header, std::span<const std::byte> index) {
  const auto fields = std::as_bytes(std::span(&header, 1)).first(offsetof(Header, checksum));
  return Hash64(index, Hash64(fields));
}

std::vector<uint64_t> Numbers(std::span<const std::byte> bytes) {
  std::vector<uint64_t> numbers(bytes.size() / sizeof(uint64_t));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

template <typename T>
std::span<const std::byte> BytesOf(const T& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

void BlobWriter::Write(std::span<const std::byte> bytes, uint64_t at) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int code = n == 0 ? ENOSPC : errno;
      Fail(
          code == ENOSPC || code == EDQUOT || code == EFBIG ? ErrorKind::kResource : ErrorKind::kIo,
          "{}: cannot write: {}", path_.string(), std::strerror(code));
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
    at += static_cast<uint64_t>(n);
  }
}

void BlobWriter::Append(std::span<const std::byte> blob) {
  sizes_.push_back(blob.size());
  const uint64_t start = end_;
  for (uint64_t at = 0; at < blob.size(); at += kBlobChunk) {
    const auto chunk = blob.subspan(at, std::min(kBlobChunk, blob.size() - at));
    uint64_t checksum = 0;
    for (uint64_t piece = 0; piece < chunk.size(); piece += kPiece) {
      const auto bytes = chunk.subspan(piece, std::min(kPiece, chunk.size() - piece));
      checksum = Hash64(bytes, checksum);
      Write(bytes, start + at + piece);
    }
    checksums_.push_back(checksum);
  }
  end_ = AlignUp(start + blob.size(), kAlignment);
  if (end_ - flushed_ >= kFlush) {
    static_cast<void>(::sync_file_range(fd_, static_cast<off_t>(flushed_),
                                        static_cast<off_t>(end_ - flushed_),
                                        SYNC_FILE_RANGE_WRITE));
    flushed_ = end_;
  }
}

void BlobWriter::Finish(const std::string& key) {
  std::vector<std::byte> index;
  for (const auto part : {BytesOf(key), BytesOf(sizes_), BytesOf(checksums_)}) {
    index.insert(index.end(), part.begin(), part.end());
  }
  Write(index, end_);
  Header header;
  header.file_bytes = end_ + index.size();
  header.index_at = end_;
  header.key_bytes = key.size();
  header.n_blobs = sizes_.size();
  header.checksum = Checksum(header, index);
  Write(std::as_bytes(std::span(&header, 1)), 0);
}

BlobReader::BlobReader(FileDescriptor fd, std::filesystem::path path)
    : fd_(std::move(fd)), path_(std::move(path)) {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) {
    Fail(ErrorKind::kIo, "{}: cannot stat: {}", path_.string(), std::strerror(errno));
  }
  Header header;
  const auto file_bytes = static_cast<uint64_t>(info.st_size);
  if (file_bytes < kAlignment) Fail(ErrorKind::kBadFile, "{}: too short", path_.string());
  ReadAt(std::as_writable_bytes(std::span(&header, 1)), 0);
  if (header.magic != Header().magic) {
    Fail(ErrorKind::kBadFile, "{}: was not finished, or is of another format", path_.string());
  }
  if (header.file_bytes != file_bytes || header.index_at > file_bytes ||
      header.index_at < kAlignment || file_bytes - header.index_at > kMaxIndex) {
    Fail(ErrorKind::kBadFile, "{}: {} bytes where {} were written", path_.string(), file_bytes,
         header.file_bytes);
  }
  std::vector<std::byte> index(file_bytes - header.index_at);
  ReadAt(index, header.index_at);
  if (Checksum(header, index) != header.checksum) {
    Fail(ErrorKind::kBadFile, "{}: its index is damaged", path_.string());
  }
  ReadIndex(index, header.key_bytes, header.n_blobs, header.index_at);
}

void BlobReader::ReadIndex(std::span<const std::byte> index, uint64_t key_bytes, uint64_t n_blobs,
                           uint64_t blobs_end) {
  const auto bad = [this]() {
    Fail(ErrorKind::kBadFile, "{}: its index contradicts itself", path_.string());
  };
  if (key_bytes > index.size() || n_blobs > (index.size() - key_bytes) / sizeof(uint64_t)) bad();
  key_.assign(reinterpret_cast<const char*>(index.data()), key_bytes);
  index = index.subspan(key_bytes);
  sizes_ = Numbers(index.first(n_blobs * sizeof(uint64_t)));
  index = index.subspan(n_blobs * sizeof(uint64_t));
  uint64_t end = kAlignment;
  uint64_t chunks = 0;
  for (const uint64_t bytes : sizes_) {
    if (bytes > blobs_end - end) bad();
    starts_.push_back(end);
    first_checksums_.push_back(chunks);
    end = AlignUp(end + bytes, kAlignment);
    chunks += CeilDiv(bytes, kBlobChunk);
    if (end > blobs_end) bad();
  }
  if (end != blobs_end || index.size() != chunks * sizeof(uint64_t)) bad();
  checksums_ = Numbers(index);
}

void BlobReader::ReadAt(std::span<std::byte> to, uint64_t at) const {
  while (!to.empty()) {
    const ssize_t n = ::pread(fd_.get(), to.data(), to.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) Fail(ErrorKind::kIo, "{}: cannot read: {}", path_.string(), std::strerror(errno));
    if (n == 0) Fail(ErrorKind::kBadFile, "{}: ends after {} bytes", path_.string(), at);
    to = to.subspan(static_cast<size_t>(n));
    at += static_cast<uint64_t>(n);
  }
}

uint64_t BlobReader::bytes(size_t blob) const {
  if (blob >= sizes_.size()) {
    Fail(ErrorKind::kBadFile, "{}: has only {} parts", path_.string(), sizes_.size());
  }
  return sizes_[blob];
}

void BlobReader::ReadChunk(size_t blob, uint64_t chunk, std::span<std::byte> to) const {
  const uint64_t size = bytes(blob);
  HADAL_CHECK(chunk < CeilDiv(size, kBlobChunk) &&
              to.size() == std::min(kBlobChunk, size - chunk * kBlobChunk));
  ReadAhead(starts_[blob] + chunk * kBlobChunk);
  uint64_t checksum = 0;
  for (uint64_t piece = 0; piece < to.size(); piece += kPiece) {
    const auto part = to.subspan(piece, std::min(kPiece, to.size() - piece));
    ReadAt(part, starts_[blob] + chunk * kBlobChunk + piece);
    checksum = Hash64(part, checksum);
  }
  if (checksum != checksums_[first_checksums_[blob] + chunk]) {
    Fail(ErrorKind::kBadFile, "{}: part {} of {} is damaged", path_.string(), blob + 1,
         sizes_.size());
  }
}

// One reader of a slow disk does not keep it busy.
void BlobReader::ReadAhead(uint64_t at) const {
  uint64_t ahead = ahead_.load(std::memory_order_relaxed);
  if (at + kAhead / 2 < ahead) return;
  const uint64_t from = std::max(at, ahead);
  if (!ahead_.compare_exchange_strong(ahead, from + kAhead, std::memory_order_relaxed)) return;
  static_cast<void>(::posix_fadvise(fd_.get(), static_cast<off_t>(from), static_cast<off_t>(kAhead),
                                    POSIX_FADV_WILLNEED));
}

}  // namespace hadal
