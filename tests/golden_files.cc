#include "golden_files.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/error.h"

namespace hadal::testing {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) Fail(ErrorKind::kNotFound, "{} is missing", path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

std::filesystem::path SourceDir() {
  return HADAL_SOURCE_DIR;
}

std::filesystem::path FixturesDir() {
  const char* dir = std::getenv("HADAL_FIXTURES");
  if (dir != nullptr && *dir != '\0') return dir;
  return SourceDir() / ".." / "shared" / "fixtures";
}

std::filesystem::path ModelsDir() {
  const std::filesystem::path own = SourceDir() / "tests" / "data" / "models";
  return std::filesystem::exists(own) ? own : FixturesDir() / "models";
}

std::vector<std::string> GoldenNames(const std::filesystem::path& dir) {
  std::vector<std::string> names;
  if (!std::filesystem::is_directory(dir)) return names;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (std::filesystem::exists(entry.path() / "golden.json")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

Json ReadJson(const std::filesystem::path& path) {
  return ParseJson(ReadFile(path), path.string());
}

Rows ReadRows(const std::filesystem::path& path, uint32_t n, uint32_t cols) {
  const std::string bytes = ReadFile(path);
  Rows rows{n, cols, std::vector<float>(size_t{n} * cols)};
  if (bytes.size() != rows.values.size() * sizeof(float)) {
    Fail(ErrorKind::kBadFile, "{} has {} bytes, not {} x {} floats", path.string(), bytes.size(), n,
         cols);
  }
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(rows.values.data()));
  return rows;
}

double RelativeL2(const float* got, const float* expected, size_t n) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(got[i]) - expected[i];
    difference += d * d;
    norm += static_cast<double>(expected[i]) * expected[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace hadal::testing
