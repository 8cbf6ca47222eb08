// For tests: golden tokenizers and cases.
#pragma once

#include <gtest/gtest.h>
#include <zstd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "tokenizer/tokenizer.h"

namespace hadal::test {

inline std::filesystem::path DataDir() {
  return std::filesystem::path(HADAL_SOURCE_DIR) / "tests/data/tokenizer";
}

// Where what may not be copied into the repository lies.
inline std::filesystem::path FixtureDir() {
  const char* fixtures = std::getenv("HADAL_FIXTURES");
  return fixtures != nullptr ? std::filesystem::path(fixtures)
                             : std::filesystem::path(HADAL_SOURCE_DIR) / "../shared/fixtures";
}

inline std::string ReadZstd(const std::filesystem::path& path) {
  const std::string packed = ReadTextFile(path);
  const unsigned long long size = ZSTD_getFrameContentSize(packed.data(), packed.size());
  EXPECT_LT(size, 1ull << 30) << path;
  std::string text(size, '\0');
  const size_t n = ZSTD_decompress(text.data(), text.size(), packed.data(), packed.size());
  EXPECT_FALSE(ZSTD_isError(n)) << path << ": " << ZSTD_getErrorName(n);
  return text;
}

inline Tokenizer LoadGolden(const std::filesystem::path& dir, const std::string& name) {
  Vocabulary vocabulary;
  vocabulary.source = name;
  const std::filesystem::path json = dir / (name + ".tokenizer.json");
  vocabulary.tokenizer_json = std::filesystem::exists(json)
                                  ? ReadTextFile(json)
                                  : ReadZstd(dir / (name + ".tokenizer.json.zst"));
  const std::filesystem::path config = dir / (name + ".tokenizer_config.json");
  if (std::filesystem::exists(config)) vocabulary.tokenizer_config_json = ReadTextFile(config);
  return Tokenizer::Create(vocabulary);
}

inline std::vector<Json> ReadJsonLines(const std::filesystem::path& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in) << path;
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) lines.push_back(ParseJson(line, path));
  }
  return lines;
}

}  // namespace hadal::test
