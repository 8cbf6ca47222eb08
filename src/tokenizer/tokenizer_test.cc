#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/incremental_decoder.h"
#include "tokenizer/test_util.h"

namespace hadal {
namespace {

using Ids = std::vector<int32_t>;

constexpr EncodeOptions kNoBos = {.add_bos = false, .parse_special = true, .data_ranges = {}};

std::string DecodeInSteps(const Tokenizer& tokenizer, const Ids& ids, bool skip_special) {
  IncrementalDecoder decoder(tokenizer, skip_special);
  std::string text;
  for (const int32_t id : ids) {
    const std::string piece = decoder.Push(id);
    EXPECT_EQ(FindInvalidUtf8(piece), std::string::npos);
    text += piece;
  }
  return text + decoder.Flush();
}

void CheckCases(const std::filesystem::path& dir, const std::string& name) {
  const Tokenizer tokenizer = test::LoadGolden(dir, name);
  const std::vector<Json> cases = test::ReadJsonLines(dir / (name + ".cases.jsonl"));
  EXPECT_GT(cases.size(), 200u);
  for (const Json& line : cases) {
    SCOPED_TRACE(line.dump());
    const auto text = line["text"].get<std::string>();
    const auto ids = line["ids"].get<Ids>();
    const auto decoded = line["decoded"].get<std::string>();
    const std::string skipped = line.value("decoded_skip_special", decoded);
    EXPECT_EQ(tokenizer.Encode(text, kNoBos), ids);
    EXPECT_EQ(tokenizer.Decode(ids), decoded);
    EXPECT_EQ(tokenizer.Decode(ids, true), skipped);
    EXPECT_EQ(DecodeInSteps(tokenizer, ids, false), decoded);
    EXPECT_EQ(DecodeInSteps(tokenizer, ids, true), skipped);

    // Offsets: the same ids; in order; together the whole text.
    Ids with_offsets;
    size_t end = 0;
    for (const EncodedToken& token : tokenizer.EncodeWithOffsets(text, kNoBos)) {
      with_offsets.push_back(token.id);
      EXPECT_LE(token.begin, end);
      end = std::max(end, token.end);
    }
    EXPECT_EQ(with_offsets, ids);
    EXPECT_EQ(end, text.size());
  }
}

void CheckPrefixes(const std::filesystem::path& dir, const std::string& name) {
  const Tokenizer tokenizer = test::LoadGolden(dir, name);
  for (const Json& line : test::ReadJsonLines(dir / (name + ".decode_prefixes.jsonl"))) {
    SCOPED_TRACE(line.dump());
    const auto ids = line["ids"].get<Ids>();
    IncrementalDecoder decoder(tokenizer);
    std::string certain;
    for (size_t n = 1; n <= ids.size(); ++n) {
      const auto expected = line["prefixes"][n - 1].get<std::string>();
      EXPECT_EQ(tokenizer.Decode(std::span(ids).first(n)), expected);
      certain += decoder.Push(ids[n - 1]);
      // What a prefix shows of an unfinished character is not certain yet.
      EXPECT_TRUE(expected == certain || expected == certain + "\xEF\xBF\xBD") << certain;
    }
  }
}

TEST(TokenizerGolden, DeepSeekV3) {
  CheckCases(test::DataDir(), "deepseek_v3");
}
TEST(TokenizerGolden, Qwen3) {
  CheckCases(test::DataDir(), "qwen3");
}
TEST(TokenizerGolden, DeepSeekV3Prefixes) {
  CheckPrefixes(test::DataDir(), "deepseek_v3");
}
TEST(TokenizerGolden, Qwen3Prefixes) {
  CheckPrefixes(test::DataDir(), "qwen3");
}

TEST(TokenizerGolden, Llama3) {
  const std::filesystem::path dir = test::FixtureDir() / "tokenizer";
  if (!std::filesystem::exists(dir / "llama3.cases.jsonl")) GTEST_SKIP() << "no fixtures: " << dir;
  CheckCases(dir, "llama3");
  CheckPrefixes(dir, "llama3");
}

}  // namespace
}  // namespace hadal
