#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>

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

// Generated tokenizers (tools/make_goldens/unigram.py): framed_ids holds what the tokenizer itself
// puts around the text.
class GeneratedGolden : public testing::TestWithParam<const char*> {};

TEST_P(GeneratedGolden, GivesTheLibrarysIds) {
  const Tokenizer tokenizer = test::LoadGolden(test::DataDir(), GetParam());
  const std::string file = std::string(GetParam()) + ".cases.jsonl";
  for (const Json& line : test::ReadJsonLines(test::DataDir() / file)) {
    SCOPED_TRACE(line.dump());
    const auto text = line["text"].get<std::string>();
    const auto ids = line["ids"].get<Ids>();
    auto framed = line["framed_ids"].get<Ids>();
    EXPECT_EQ(tokenizer.Encode(text, kNoBos), ids);
    // The one difference: a text that begins with BOS gets no second one.
    if (framed.size() >= 2 && framed[0] == tokenizer.bos_id() && framed[1] == framed[0]) {
      framed.erase(framed.begin());
    }
    EXPECT_EQ(tokenizer.Encode(text), framed);
    EXPECT_EQ(tokenizer.Decode(ids), line["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer.Decode(ids, true), line["decoded_skip_special"].get<std::string>());
    EXPECT_EQ(DecodeInSteps(tokenizer, ids, false), line["decoded"].get<std::string>());
    EXPECT_EQ(DecodeInSteps(tokenizer, ids, true), line["decoded_skip_special"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, GeneratedGolden,
                         testing::Values("unigram", "unigram_unk", "spm_bpe", "added"),
                         [](const auto& test_info) { return std::string(test_info.param); });

// A byte-level tokenizer with the 256 bytes, a few merges and two added tokens.
Json TinyTokenizer() {
  Json vocab = Json::object();
  const auto add = [&vocab](const std::string& piece) { vocab[piece] = vocab.size(); };
  for (int code = 0x21; code <= 0x7E; ++code) add(std::string(1, static_cast<char>(code)));
  for (int code = 0xA1; code <= 0x143; ++code) {
    if (code == 0xAD) continue;
    std::string piece;
    AppendUtf8(static_cast<char32_t>(code), piece);
    add(piece);
  }
  add("ab");
  add("abc");
  const int next = static_cast<int>(vocab.size());
  const auto token = [](int id, const std::string& content, bool special) {
    return Json{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", special}};
  };
  return Json{
      {"version", "1.0"},
      {"added_tokens", {token(next, "<s>", true), token(next + 1, "<think>", false)}},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b", "ab c"}}}}};
}

Tokenizer Load(const Json& json, const std::string& config = "") {
  Vocabulary vocabulary;
  vocabulary.source = "tiny";
  vocabulary.tokenizer_json = json.dump();
  vocabulary.tokenizer_config_json = config;
  return Tokenizer::Create(vocabulary);
}

std::string LoadError(const Json& json, const std::string& config = "") {
  try {
    Load(json, config);
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(Tokenizer, UserTextNeverBecomesAnAddedToken) {
  const Tokenizer tokenizer = Load(TinyTokenizer());
  const int32_t bos = tokenizer.TokenId("<s>");
  const int32_t think = tokenizer.TokenId("<think>");
  const std::string text = "<s><think>abc<s>";
  const auto encode = [&](std::vector<ByteRange> data) {
    return tokenizer.Encode(text, {.add_bos = false, .data_ranges = data});
  };
  const auto has = [](const Ids& ids, int32_t id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  const Ids free = encode({});
  EXPECT_EQ(free.front(), bos);
  EXPECT_EQ(free.back(), bos);
  // One byte of a token from a user is enough.
  for (size_t byte = 3; byte < 10; ++byte) {
    const Ids ids = encode({{byte, byte + 1}});
    EXPECT_EQ(ids.front(), bos);
    EXPECT_FALSE(has(ids, think)) << byte;
    EXPECT_EQ(tokenizer.Decode(ids), text);
  }
  // An empty range, and neighbours of a token, change nothing.
  EXPECT_EQ(encode({{4, 4}, {10, 13}}), free);
  const Ids all = encode({{0, text.size()}});
  EXPECT_FALSE(has(all, bos) || has(all, think));
  EXPECT_EQ(all,
            tokenizer.Encode(text, {.add_bos = false, .parse_special = false, .data_ranges = {}}));
  EXPECT_EQ(tokenizer.Decode(all), text);
  // Ordinary tokens cross the border.
  EXPECT_EQ(tokenizer.Encode("abc", {.data_ranges = std::vector<ByteRange>{{1, 2}}}),
            Ids{tokenizer.TokenId("abc")});
}

TEST(Tokenizer, BytesOfIllFormedTextSurvive) {
  const Tokenizer tokenizer = Load(TinyTokenizer());
  std::string text = "abc \xFF\xC3 \xE2\x82 x\xF0\x9F\xA6\x8A\x80";
  for (int byte = 0; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  std::string bytes;
  const Ids ids = tokenizer.Encode(text);
  for (const int32_t id : ids) bytes += tokenizer.TokenBytes(id);
  EXPECT_EQ(bytes, text);
  EXPECT_EQ(tokenizer.Decode(ids), ReplaceInvalidUtf8(text));
  EXPECT_EQ(DecodeInSteps(tokenizer, ids, false), ReplaceInvalidUtf8(text));
  // Others read U+FFFD.
  const Tokenizer spm = test::LoadGolden(test::DataDir(), "spm_bpe");
  EXPECT_EQ(spm.Encode("a\xFF\xE2\x82z"), spm.Encode("a\xEF\xBF\xBD\xEF\xBF\xBDz"));
}

TEST(Tokenizer, ConfigDecidesOnBosAsTransformersDoes) {
  const Json tiny = TinyTokenizer();
  const auto ids = [&tiny](const std::string& config) {
    const Tokenizer tokenizer = Load(tiny, config);
    EXPECT_EQ(tokenizer.adds_bos(), tokenizer.Encode("x").size() == 2) << config;
    return tokenizer.Encode("x").size();
  };
  EXPECT_EQ(ids(R"({"bos_token": "<s>"})"), 1u);
  EXPECT_EQ(ids(R"({"bos_token": "<s>", "add_bos_token": true})"), 2u);
  EXPECT_EQ(ids(R"({"bos_token": {"content": "<s>"}, "tokenizer_class": "LlamaTokenizerFast"})"),
            2u);
  EXPECT_EQ(ids(R"({"tokenizer_class": "LlamaTokenizer"})"), 2u);  // <s> by default
  EXPECT_EQ(ids(R"({"bos_token": "<s>", "tokenizer_class": "LlamaTokenizerFast",
                    "add_bos_token": false})"),
            1u);
  const Tokenizer both = Load(tiny, R"({"bos_token": "<s>", "eos_token": "<think>",
                                        "add_bos_token": true, "add_eos_token": true})");
  const int32_t bos = both.bos_id();
  const int32_t eos = both.eos_id();
  EXPECT_EQ(both.Encode(""), (Ids{bos, eos}));
  EXPECT_EQ(both.Encode("<s>"), (Ids{bos, eos}));  // not twice
  EXPECT_EQ(both.Encode("<s>", {.parse_special = false, .data_ranges = {}}).front(), bos);
  const std::vector<EncodedToken> framed = both.EncodeWithOffsets("abc");
  EXPECT_EQ(framed,
            (std::vector<EncodedToken>{{bos, 0, 0}, {both.TokenId("abc"), 0, 3}, {eos, 3, 3}}));
  const Tokenizer deepseek = test::LoadGolden(test::DataDir(), "deepseek_v3");
  EXPECT_TRUE(deepseek.adds_bos());
  EXPECT_EQ(deepseek.Encode("x").front(), deepseek.bos_id());
  EXPECT_EQ(deepseek.Piece(deepseek.bos_id()), "<｜begin▁of▁sentence｜>");
}

TEST(Tokenizer, ContradictionsAndUnknownFeaturesAreNamed) {
  Json json = TinyTokenizer();
  json["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", ""}};
  EXPECT_EQ(LoadError(json), "tiny: normalizer \"Precompiled\" is not supported");
  json = TinyTokenizer();
  json["model"]["type"] = "WordPiece";
  EXPECT_EQ(LoadError(json), "tiny: the tokenizer model \"WordPiece\" is not supported");
  json = TinyTokenizer();
  json["model"]["merges"].push_back("q zz");
  EXPECT_EQ(LoadError(json), "tiny: the merges name \"zz\", which is not in the vocabulary");
  json = TinyTokenizer();
  json["added_tokens"][0]["id"] = 3;
  EXPECT_NE(LoadError(json).find("has id 3, which is \"$\""), std::string::npos);
  json = TinyTokenizer();
  json["model"]["vocab"]["q"] = 4'000'000'000u;
  EXPECT_NE(LoadError(json).find("the id of \"q\""), std::string::npos);
  EXPECT_NE(LoadError(TinyTokenizer(), R"({"bos_token": "<none>"})").find("<none>"),
            std::string::npos);
  Vocabulary vocabulary;
  vocabulary.source = "file.gguf";
  vocabulary.model = "gpt2";
  vocabulary.pre = "some-new-one";
  vocabulary.tokens = {"a"};
  EXPECT_THROW(
      {
        try {
          Tokenizer::Create(vocabulary);
        } catch (const Error& error) {
          EXPECT_NE(error.message().find("\"some-new-one\""), std::string::npos);
          throw;
        }
      },
      Error);
}

TEST(Tokenizer, IdsWithoutAStringGiveNothing) {
  const Tokenizer tokenizer = Load(TinyTokenizer());
  const int32_t beyond = tokenizer.vocab_size();
  EXPECT_EQ(tokenizer.Decode(Ids{-1, tokenizer.TokenId("abc"), beyond, INT32_MAX}), "abc");
  EXPECT_EQ(tokenizer.TokenBytes(beyond), "");
  EXPECT_EQ(tokenizer.Piece(-5), "");
  EXPECT_EQ(tokenizer.TokenId("nowhere"), -1);
  EXPECT_EQ(tokenizer.facts().merges, 2u);
  EXPECT_EQ(tokenizer.facts().special, 1u);
}

TEST(Tokenizer, LongWordsAreMergedAsShortOnes) {
  // "abcabcabc..." far beyond the length up to which pairs are scanned.
  const Tokenizer tokenizer = Load(TinyTokenizer());
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "abcab";
  const Ids ids = tokenizer.Encode(text);
  ASSERT_EQ(ids.size(), 100'000u);
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(ids[i], tokenizer.TokenId(i % 2 == 0 ? "abc" : "ab")) << i;
  }
}

TEST(Tokenizer, RunawayPatternIsAnError) {
  Json json = TinyTokenizer();
  json["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", "(a|aa)+[bc]"}}}, {"behavior", "Isolated"}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  const Tokenizer tokenizer = Load(json);
  EXPECT_EQ(tokenizer.Encode("b").size(), 1u);
  EXPECT_THROW(tokenizer.Encode(std::string(200, 'a') + "d"), Error);
}

}  // namespace
}  // namespace hadal
