// Finding and reading golden models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"

namespace hadal::testing {

// Rows of f32.
struct Rows {
  uint32_t n = 0;
  uint32_t cols = 0;
  std::vector<float> values;
  const float* row(uint32_t r) const { return values.data() + size_t{r} * cols; }
};

std::filesystem::path SourceDir();
// The folder of golden models: tests/data/models, or HADAL_FIXTURES/models.
std::filesystem::path ModelsDir();
// Material that may not be copied into the repository; may not exist.
std::filesystem::path FixturesDir();

// Sorted names of the folders in `dir` that hold a golden.json.
std::vector<std::string> GoldenNames(const std::filesystem::path& dir);

Json ReadJson(const std::filesystem::path& path);
Rows ReadRows(const std::filesystem::path& path, uint32_t n, uint32_t cols);

// Norm of the difference over the norm of what was expected.
double RelativeL2(const float* got, const float* expected, size_t n);

}  // namespace hadal::testing
