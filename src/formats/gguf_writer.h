// Writes a GGUF version 3 file front to back, never holding more than a buffer of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"

namespace hadal {

// Use: Set...() and AddTensor() in any order; then Append() the bytes of all tensors, in the order
// in which they were added, in pieces of any size; then Finish(). The file appears under its name
// only then: until that moment it is NAME.partial, and it is deleted when the writer dies early.
// Throws Error(kIo) naming the file and the system's reason when it cannot be written.
class GgufWriter {
 public:
  explicit GgufWriter(std::filesystem::path path);
  ~GgufWriter();
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;

  // Keys must be new.
  void SetU32(std::string_view key, uint32_t value);
  void SetF32(std::string_view key, float value);
  void SetBool(std::string_view key, bool value);
  void SetString(std::string_view key, std::string_view value);
  void SetStrings(std::string_view key, const std::vector<std::string>& values);
  void SetI32s(std::string_view key, std::span<const int32_t> values);
  void SetF32s(std::string_view key, std::span<const float> values);
  // Copies a value from another file.
  void SetValue(std::string_view key, const GgufValue& value);

  // `shape`: outermost dimension first, 1 to 4 dimensions. The row must divide into blocks.
  void AddTensor(std::string_view name, DType type, std::span<const uint64_t> shape);

  // The next bytes. A tensor must be complete before bytes of the next one come.
  void Append(std::span<const std::byte> bytes);

  // All tensors must be complete.
  void Finish();

  // Instead of Append and Finish: a file that ends where the tensors' bytes would begin.
  void FinishHeader();

  uint64_t bytes_written() const { return written_; }

 private:
  class Output;
  struct Tensor {
    std::string name;
    DType type;
    std::vector<uint64_t> shape;
    uint64_t bytes;
  };
  void Key(std::string_view key, GgufType type);
  void WriteHeader();
  void PadTo(uint64_t alignment);
  void Publish();

  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::unique_ptr<Output> output_;
  std::string metadata_;
  uint64_t n_metadata_ = 0;
  std::vector<Tensor> tensors_;
  bool header_written_ = false;
  bool finished_ = false;
  size_t current_ = 0;       // tensor that bytes go to
  uint64_t in_current_ = 0;  // bytes of it so far
  uint64_t written_ = 0;
};

}  // namespace hadal
