#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/file_descriptor.h"

namespace hadal {
namespace {

[[noreturn]] void FailSystem(const std::filesystem::path& path, const char* action) {
  const int code = errno;
  Fail(code == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo, "{}: cannot {}: {}", path.string(),
       action, std::strerror(code));
}

FileDescriptor OpenToRead(const std::filesystem::path& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) FailSystem(path, "open");
  return fd;
}

FileIdentity IdentityOf(const struct stat& info) {
  const auto nanoseconds = [](const timespec& time) {
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  return {info.st_dev, info.st_ino, static_cast<uint64_t>(info.st_size), nanoseconds(info.st_mtim),
          nanoseconds(info.st_ctim)};
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const FileDescriptor fd = OpenToRead(path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) FailSystem(path, "stat");
  if (!S_ISREG(info.st_mode)) {
    Fail(ErrorKind::kIo, "{}: not a regular file", path.string());
  }
  identity_ = IdentityOf(info);
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) FailSystem(path, "map");
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      identity_(other.identity_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(identity_, other.identity_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

bool MappedFile::Unchanged() const {
  struct stat info {};
  return ::stat(path_.c_str(), &info) == 0 && IdentityOf(info) == identity_;
}

void MappedFile::DropPages(size_t offset, size_t size) const {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = (offset + page - 1) / page * page;
  const size_t end = (offset + size) / page * page;
  if (data_ == nullptr || begin >= end || end > size_) return;
  ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

std::string ReadTextFile(const std::filesystem::path& path, size_t max_bytes) {
  // Read, not mapped: pipes and terminals are files too.
  const FileDescriptor fd = OpenToRead(path);
  std::string text;
  for (;;) {
    constexpr size_t kStep = size_t{1} << 16;
    const size_t size = text.size();
    text.resize(size + kStep);
    const ssize_t n = ::read(fd.get(), text.data() + size, kStep);
    if (n < 0 && errno == EINTR) {
      text.resize(size);
      continue;
    }
    if (n < 0) FailSystem(path, "read");
    text.resize(size + static_cast<size_t>(n));
    if (n == 0) return text;
    if (text.size() > max_bytes) {
      Fail(ErrorKind::kBadFile, "{}: more than the {} bytes that such a file may have",
           path.string(), max_bytes);
    }
  }
}

}  // namespace hadal
