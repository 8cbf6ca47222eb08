#include "formats/gguf_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/error.h"

namespace hadal {
namespace {

constexpr uint64_t kAlignment = 32;
constexpr size_t kBufferBytes = size_t{1} << 20;

template <typename T>
void Put(std::string& out, T value) {
  const auto* bytes = reinterpret_cast<const char*>(&value);
  out.append(bytes, sizeof(T));
}

void PutString(std::string& out, std::string_view text) {
  Put<uint64_t>(out, text.size());
  out.append(text);
}

}  // namespace

// A buffered file descriptor.
class GgufWriter::Output {
 public:
  explicit Output(const std::filesystem::path& path)
      : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
    if (fd_ < 0) FailSystem("create");
    buffer_.reserve(kBufferBytes);
  }
  ~Output() {
    if (fd_ >= 0) ::close(fd_);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void Write(const void* data, size_t size) {
    const auto* bytes = static_cast<const char*>(data);
    if (buffer_.size() + size > kBufferBytes) Flush();
    if (size >= kBufferBytes) {
      WriteAll(bytes, size);
    } else {
      buffer_.append(bytes, size);
    }
  }

  // A full disk may show only here.
  void Close() {
    Flush();
    if (::fsync(fd_) != 0 && errno != EINVAL && errno != EROFS) FailSystem("write");
    const int fd = fd_;
    fd_ = -1;
    if (::close(fd) != 0) FailSystem("write");
  }

 private:
  void Flush() {
    WriteAll(buffer_.data(), buffer_.size());
    buffer_.clear();
  }
  void WriteAll(const char* data, size_t size) {
    while (size > 0) {
      const ssize_t written = ::write(fd_, data, size);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) FailSystem("write");
      data += written;
      size -= static_cast<size_t>(written);
    }
  }
  [[noreturn]] void FailSystem(const char* action) const {
    const int code = errno;
    Fail(ErrorKind::kIo, "{}: cannot {}: {}", path_.string(), action, std::strerror(code));
  }

  std::filesystem::path path_;
  int fd_;
  std::string buffer_;
};

GgufWriter::GgufWriter(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored)) {
    Fail(ErrorKind::kUsage, "{}: a folder; name the file to write", path_.string());
  }
  // Renaming over a device or a pipe would replace it by a file.
  if (std::filesystem::exists(path_, ignored) &&
      !std::filesystem::is_regular_file(path_, ignored)) {
    Fail(ErrorKind::kUsage, "{}: not a regular file; name the file to write", path_.string());
  }
  partial_ = path_;
  partial_ += ".partial";
  output_ = std::make_unique<Output>(partial_);
}

GgufWriter::~GgufWriter() {
  output_.reset();
  std::error_code ignored;
  if (!finished_) std::filesystem::remove(partial_, ignored);
}

void GgufWriter::Key(std::string_view key, GgufType type) {
  HADAL_CHECK(!header_written_);
  PutString(metadata_, key);
  Put(metadata_, static_cast<uint32_t>(type));
  ++n_metadata_;
}

void GgufWriter::SetU32(std::string_view key, uint32_t value) {
  Key(key, GgufType::kU32);
  Put(metadata_, value);
}

void GgufWriter::SetF32(std::string_view key, float value) {
  Key(key, GgufType::kF32);
  Put(metadata_, value);
}

void GgufWriter::SetBool(std::string_view key, bool value) {
  Key(key, GgufType::kBool);
  Put<uint8_t>(metadata_, value ? 1 : 0);
}

void GgufWriter::SetString(std::string_view key, std::string_view value) {
  Key(key, GgufType::kString);
  PutString(metadata_, value);
}

void GgufWriter::SetStrings(std::string_view key, const std::vector<std::string>& values) {
  Key(key, GgufType::kArray);
  Put(metadata_, static_cast<uint32_t>(GgufType::kString));
  Put<uint64_t>(metadata_, values.size());
  for (const std::string& value : values) PutString(metadata_, value);
}

void GgufWriter::SetI32s(std::string_view key, std::span<const int32_t> values) {
  Key(key, GgufType::kArray);
  Put(metadata_, static_cast<uint32_t>(GgufType::kI32));
  Put<uint64_t>(metadata_, values.size());
  for (const int32_t value : values) Put(metadata_, value);
}

void GgufWriter::SetF32s(std::string_view key, std::span<const float> values) {
  Key(key, GgufType::kArray);
  Put(metadata_, static_cast<uint32_t>(GgufType::kF32));
  Put<uint64_t>(metadata_, values.size());
  for (const float value : values) Put(metadata_, value);
}

void GgufWriter::SetValue(std::string_view key, const GgufValue& value) {
  Key(key, value.type);
  metadata_.append(reinterpret_cast<const char*>(value.raw_value.data()), value.raw_value.size());
}

void GgufWriter::AddTensor(std::string_view name, DType type, std::span<const uint64_t> shape) {
  HADAL_CHECK(!header_written_ && !shape.empty() && shape.size() <= 4);
  uint64_t rows = 1;
  for (const uint64_t dim : shape.first(shape.size() - 1)) rows *= dim;
  tensors_.push_back(
      {std::string(name), type, {shape.begin(), shape.end()}, rows * RowBytes(type, shape.back())});
}

void GgufWriter::WriteHeader() {
  std::string out = "GGUF";
  Put<uint32_t>(out, 3);
  Put<uint64_t>(out, tensors_.size());
  Put<uint64_t>(out, n_metadata_);
  out += metadata_;
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    PutString(out, tensor.name);
    Put(out, static_cast<uint32_t>(tensor.shape.size()));
    for (auto dim = tensor.shape.rbegin(); dim != tensor.shape.rend(); ++dim) Put(out, *dim);
    Put(out, ToGgufType(tensor.type));
    Put(out, offset);
    offset += (tensor.bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  output_->Write(out.data(), out.size());
  written_ = out.size();
  header_written_ = true;
  PadTo(kAlignment);
}

void GgufWriter::PadTo(uint64_t alignment) {
  constexpr char kZeros[kAlignment] = {};
  const uint64_t padding = (alignment - written_ % alignment) % alignment;
  output_->Write(kZeros, padding);
  written_ += padding;
}

void GgufWriter::Append(std::span<const std::byte> bytes) {
  if (!header_written_) WriteHeader();
  HADAL_CHECK(current_ < tensors_.size());
  HADAL_CHECK(bytes.size() <= tensors_[current_].bytes - in_current_);
  output_->Write(bytes.data(), bytes.size());
  written_ += bytes.size();
  in_current_ += bytes.size();
  if (in_current_ < tensors_[current_].bytes) return;
  PadTo(kAlignment);
  ++current_;
  in_current_ = 0;
}

void GgufWriter::Finish() {
  if (!header_written_) WriteHeader();
  HADAL_CHECK(current_ == tensors_.size());
  Publish();
}

void GgufWriter::FinishHeader() {
  HADAL_CHECK(!header_written_);
  WriteHeader();
  Publish();
}

void GgufWriter::Publish() {
  output_->Close();
  std::error_code error;
  std::filesystem::rename(partial_, path_, error);
  if (error) {
    Fail(ErrorKind::kIo, "{}: cannot rename to {}: {}", partial_.string(), path_.string(),
         error.message());
  }
  finished_ = true;
}

}  // namespace hadal
