#include "model/pack_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/hash.h"

namespace hadal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".packed";
constexpr std::string_view kTemporary = ".packed.tmp";
// What must stay free on the disk: a tenth of it, or this if that is less.
constexpr uint64_t kMostLeftFree = uint64_t{10} << 30;

uint64_t HashText(const std::string& text) {
  return Hash64(std::as_bytes(std::span(text)));
}

// A name a person recognizes, with what tells models of equal names apart. Without the files'
// state: a model that was written anew takes the place of the old one.
std::string FileName(const Checkpoint& checkpoint, const std::string& form) {
  const fs::path& first = checkpoint.files().front();
  std::string paths = form;
  for (const fs::path& file : checkpoint.files()) {
    std::error_code ignored;
    paths += '\n' + fs::weakly_canonical(file, ignored).string();
  }
  std::string stem = first.extension() == ".gguf"
                         ? first.stem().string()
                         : fs::absolute(first).parent_path().filename().string();
  stem.resize(std::min<size_t>(stem.size(), 64));
  for (char& c : stem) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_') c = '.';
  }
  return fmt::format("{}-{:016x}{}", stem, HashText(paths), kSuffix);
}

// Packed projections of MLA are cut out of a tensor by these, which may stand in another file.
std::string Derivation(const AttentionSpec& attention) {
  return fmt::format("mla {} {} {} {}", attention.n_heads, attention.kv_lora_rank,
                     attention.qk_nope_head_dim, attention.v_head_dim);
}

bool SameFile(int fd, const fs::path& path) {
  struct stat open {};
  struct stat named {};
  return ::fstat(fd, &open) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

// The file, locked; nothing, with errno, where it cannot be or another process holds it. Between
// opening and locking, its writer may have given it its final name: hence the look at the name.
FileDescriptor LockAlone(const fs::path& path, int flags) {
  FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
  if (!fd) return fd;
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return FileDescriptor();
  if (!SameFile(fd.get(), path)) {
    errno = EWOULDBLOCK;
    return FileDescriptor();
  }
  return fd;
}

struct KeptFile {
  fs::path path;
  uint64_t bytes = 0;
  fs::file_time_type used;
};

// Complete files, least recently used first. Temporary ones whose writers are gone are deleted.
std::vector<KeptFile> ListFiles(const fs::path& folder) {
  std::vector<KeptFile> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with(kTemporary)) {
      if (const FileDescriptor stale = LockAlone(it->path(), 0)) ::unlink(it->path().c_str());
    } else if (name.ends_with(kSuffix)) {
      std::error_code gone;
      const KeptFile file = {it->path(), it->file_size(gone), it->last_write_time(gone)};
      if (!gone) files.push_back(file);
    }
  }
  std::sort(files.begin(), files.end(),
            [](const KeptFile& a, const KeptFile& b) { return a.used < b.used; });
  return files;
}

std::string Mebibytes(uint64_t bytes) {
  return fmt::format("{} MiB", bytes >> 20);
}

// Deletes the least recently used files until `bytes` more stay within the bound. Returns why there
// is no room, having deleted nothing, or an empty text.
std::string MakeRoom(const PackCacheOptions& options, const fs::path& own, uint64_t bytes,
                     bool already_written) {
  if (bytes > options.max_bytes) {
    return fmt::format("{} are more than --pack-cache-size", Mebibytes(bytes));
  }
  std::vector<KeptFile> files = ListFiles(options.folder);
  uint64_t sum = bytes;
  for (const KeptFile& file : files) sum += file.path == own ? 0 : file.bytes;
  uint64_t freed = 0;
  std::vector<fs::path> leaving;
  for (const KeptFile& file : files) {
    if (file.path != own && sum <= options.max_bytes) continue;
    if (file.path != own) sum -= file.bytes;
    freed += file.bytes;
    leaving.push_back(file.path);
  }
  struct statvfs disk {};
  if (!already_written && ::statvfs(options.folder.c_str(), &disk) == 0) {
    const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize + freed;
    const uint64_t stay = std::min(kMostLeftFree, uint64_t{disk.f_blocks} * disk.f_frsize / 10);
    if (free < bytes || free - bytes < stay) {
      return fmt::format("{} has only {} free", options.folder.string(), Mebibytes(free));
    }
  }
  for (const fs::path& path : leaving) ::unlink(path.c_str());
  return {};
}

// A longer write would end the process with a signal.
bool AllowsFilesOf(uint64_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         limit.rlim_cur >= bytes;
}

}  // namespace

PackWriter::PackWriter(FileDescriptor fd, fs::path temporary, fs::path path,
                       const PackCacheOptions& options)
    : fd_(std::move(fd)),
      temporary_(std::move(temporary)),
      path_(std::move(path)),
      options_(options),
      writer_(fd_.get(), temporary_) {}

PackWriter::~PackWriter() {
  if (!kept_ && fd_) ::unlink(temporary_.c_str());
}

template <typename Body>
void PackWriter::Attempt(Body&& body) {
  if (!failure_.empty()) return;
  try {
    body();
  } catch (const Error& error) {
    failure_ = error.message();
    // Its space may be what others lack.
    ::unlink(temporary_.c_str());
    fd_ = FileDescriptor();
    if (options_.warn) {
      options_.warn(failure_ + "; the packed weights are not kept for the next start");
    }
  }
}

void PackWriter::Append(const Weight& weight) {
  Attempt([&] {
    for (const std::span<const std::byte> part : weight.packed()) writer_.Append(part);
  });
}

std::string PackWriter::Keep(const std::string& key) {
  std::string why;
  Attempt([&] {
    writer_.Finish(key);
    struct stat info {};
    const uint64_t bytes =
        ::fstat(fd_.get(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : UINT64_MAX;
    why = MakeRoom(options_, path_, bytes, true);
    if (!why.empty()) return;
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
      Fail(ErrorKind::kIo, "{}: cannot rename: {}", temporary_.string(), std::strerror(errno));
    }
    kept_ = true;
  });
  return failure_.empty() ? why : failure_;
}

PackCache::PackCache(const PackCacheOptions& options, const Checkpoint& checkpoint,
                     const Backend& backend, WeightPolicy policy)
    : options_(options) {
  const std::string form = backend.PackedForm();
  if (options.folder.empty() || options.max_bytes == 0 || form.empty()) return;
  const std::string kind = fmt::format("{}, policy {}", form, static_cast<int>(policy));
  key_ = fmt::format("{}, {}\n{}", kind, Derivation(checkpoint.spec().attention),
                     checkpoint.Identity());
  path_ = options.folder / FileName(checkpoint, kind);
}

std::unique_ptr<BlobReader> PackCache::Open() const {
  if (path_.empty()) return nullptr;
  FileDescriptor fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return nullptr;
  try {
    auto reader = std::make_unique<BlobReader>(std::move(fd), path_);
    return reader->key() == key_ ? std::move(reader) : nullptr;
  } catch (const Error& error) {
    Discard(error.message());
    return nullptr;
  }
}

void PackCache::Touch() const {
  static_cast<void>(::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0));
}

void PackCache::Discard(const std::string& problem) const {
  ::unlink(path_.c_str());
  if (options_.warn) options_.warn(problem + "; ignored, the weights are packed anew");
}

std::unique_ptr<PackWriter> PackCache::Create(uint64_t bytes, std::string& why) const {
  if (path_.empty() || bytes < options_.min_bytes) return nullptr;
  // The index, and what blobs leave empty between them.
  const uint64_t likely = bytes + bytes / 32 + (1 << 20);
  if (!AllowsFilesOf(likely)) {
    why = fmt::format("files may not have {} (ulimit -f)", Mebibytes(likely));
    return nullptr;
  }
  std::error_code error;
  fs::create_directories(options_.folder, error);
  if (error) {
    why = fmt::format("{}: {}", options_.folder.string(), error.message());
    return nullptr;
  }
  if (Open() != nullptr) {
    why = "another process has just written them";
    return nullptr;
  }
  why = MakeRoom(options_, path_, bytes, false);
  if (!why.empty()) return nullptr;
  const fs::path temporary = path_.string() + ".tmp";
  FileDescriptor fd = LockAlone(temporary, O_CREAT);
  if (!fd || ::ftruncate(fd.get(), 0) != 0) {
    why = errno == EWOULDBLOCK ? "another process is writing them"
                               : fmt::format("{}: {}", temporary.string(), std::strerror(errno));
    return nullptr;
  }
  return std::make_unique<PackWriter>(std::move(fd), temporary, path_, options_);
}

}  // namespace hadal
