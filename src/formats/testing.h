// Test support: files made byte by byte, temporary folders, error messages.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/error.h"

namespace hadal::formats_testing {

class Bytes {
 public:
  Bytes& Raw(std::string_view text) {
    data_.append(text);
    return *this;
  }
  Bytes& U8(uint8_t value) { return Number(value); }
  Bytes& U32(uint32_t value) { return Number(value); }
  Bytes& U64(uint64_t value) { return Number(value); }
  // Length and text, as GGUF has it.
  Bytes& String(std::string_view text) { return U64(text.size()).Raw(text); }
  Bytes& Pad(size_t alignment) {
    while (data_.size() % alignment != 0) data_.push_back('\0');
    return *this;
  }
  std::span<const std::byte> span() const { return std::as_bytes(std::span(data_)); }
  const std::string& text() const { return data_; }

 private:
  template <typename T>
  Bytes& Number(T value) {
    data_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  std::string data_;
};

// The message of the Error that `body` throws; empty when it throws none.
inline std::string Message(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

inline std::filesystem::path Models() {
  return std::filesystem::path(HADAL_SOURCE_DIR) / "tests" / "data" / "models";
}

// A folder that is deleted with its content.
class TempFolder {
 public:
  TempFolder()
      : path_(std::filesystem::temp_directory_path() /
              ("hadal_formats_" + std::to_string(std::random_device{}()))) {
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

  void Write(const std::string& name, std::string_view text) const {
    std::ofstream file(path_ / name, std::ios::binary);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    HADAL_CHECK(file.good());
  }
  // Copies a folder's files (no folders in it).
  void CopyFrom(const std::filesystem::path& folder) const {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::filesystem::copy_file(entry.path(), path_ / entry.path().filename(),
                                 std::filesystem::copy_options::overwrite_existing);
    }
  }

 private:
  std::filesystem::path path_;
};

}  // namespace hadal::formats_testing
