// Vocabularies in GGUF files against the vectors that come with them (which Hugging Face's
// libraries made), and GGUF's way of saying what tokenizer.json says against the same cases.
#include <gtest/gtest.h>

#include <sstream>

#include "formats/gguf.h"
#include "tokenizer/test_util.h"
#include "tokenizer/tokenizer.h"

namespace hadal {
namespace {

using Ids = std::vector<int32_t>;

constexpr EncodeOptions kNoBos = {.add_bos = false, .parse_special = true, .data_ranges = {}};

struct VectorCase {
  std::string text;
  Ids ids;
};

std::vector<VectorCase> ReadVectors(const std::string& name) {
  const std::filesystem::path dir = test::FixtureDir() / "tokenizer/llama_cpp_vectors";
  const std::string input = ReadTextFile(dir / ("ggml-vocab-" + name + ".gguf.inp"));
  std::istringstream output(ReadTextFile(dir / ("ggml-vocab-" + name + ".gguf.out")));
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  std::vector<VectorCase> cases;
  size_t pos = 0;
  for (std::string line; std::getline(output, line);) {
    const size_t end = std::min(input.find(kSeparator, pos), input.size());
    std::istringstream numbers(line);
    VectorCase c{input.substr(pos, end - pos), {}};
    for (int32_t id = 0; numbers >> id;) c.ids.push_back(id);
    cases.push_back(std::move(c));
    pos = end + kSeparator.size();
    if (pos > input.size()) break;
  }
  EXPECT_GT(cases.size(), 40u) << name;
  return cases;
}

void CheckVectors(const Tokenizer& tokenizer, const std::string& name) {
  for (const VectorCase& c : ReadVectors(name)) {
    SCOPED_TRACE(Json(c.text).dump());
    EXPECT_EQ(tokenizer.Encode(c.text, kNoBos), c.ids);
  }
}

bool HaveFixtures() {
  return std::filesystem::exists(test::FixtureDir() / "external");
}

Tokenizer LoadExternal(const std::string& name) {
  const std::string bytes =
      test::ReadZstd(test::FixtureDir() / "external" / ("ggml-vocab-" + name + ".gguf.zst"));
  return Tokenizer::Create(GgufVocabulary(ParseGguf(std::as_bytes(std::span(bytes)), name)));
}

class ExternalVocabulary : public testing::TestWithParam<const char*> {};

TEST_P(ExternalVocabulary, GivesTheVectorsIds) {
  if (!HaveFixtures()) GTEST_SKIP() << "no fixtures in " << test::FixtureDir();
  const Tokenizer tokenizer = LoadExternal(GetParam());
  EXPECT_TRUE(tokenizer.adds_bos());
  CheckVectors(tokenizer, GetParam());
  // What was encoded comes back, but for the unknown and the leading space of SentencePiece.
  for (const VectorCase& c : ReadVectors(GetParam())) {
    EXPECT_EQ(tokenizer.Decode(c.ids), c.text) << GetParam();
  }
}

INSTANTIATE_TEST_SUITE_P(Gguf, ExternalVocabulary,
                         testing::Values("deepseek-llm", "deepseek-coder", "llama-spm"),
                         [](const auto& test_info) {
                           std::string name = test_info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Where scripts/fetch_smollm2.py leaves it.
std::filesystem::path SmolLm2Path() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::filesystem::path base = cache != nullptr
                                         ? std::filesystem::path(cache)
                                         : std::filesystem::path(home ? home : "/") / ".cache";
  return base / "hadal/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

TEST(GgufVocabulary, SmolLm2IsAsHuggingFacesLibrary) {
  if (!std::filesystem::exists(SmolLm2Path())) {
    GTEST_SKIP() << SmolLm2Path() << " is absent; scripts/fetch_smollm2.py fetches it";
  }
  const MappedFile file(SmolLm2Path());
  const Tokenizer tokenizer =
      Tokenizer::Create(GgufVocabulary(ParseGguf(file.bytes(), SmolLm2Path())));
  EXPECT_FALSE(tokenizer.adds_bos());
  for (const Json& line : test::ReadJsonLines(test::DataDir() / "smollm2.cases.jsonl")) {
    SCOPED_TRACE(line.dump());
    const auto ids = line["ids"].get<Ids>();
    EXPECT_EQ(tokenizer.Encode(line["text"].get<std::string>()), ids);
    EXPECT_EQ(tokenizer.Decode(ids), line["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer.Decode(ids, true), line["decoded_skip_special"].get<std::string>());
  }
}

// The same tokenizer as a GGUF file holds it.
Vocabulary AsGguf(const std::string& tokenizer_json, const std::string& pre) {
  const Json root = ParseJson(tokenizer_json, "tokenizer.json");
  Vocabulary vocabulary;
  vocabulary.source = pre;
  vocabulary.model = "gpt2";
  vocabulary.pre = pre;
  vocabulary.add_bos = 0;
  const auto put = [&vocabulary](size_t id, const std::string& piece, int32_t type) {
    if (id >= vocabulary.tokens.size()) {
      vocabulary.tokens.resize(id + 1);
      vocabulary.types.resize(id + 1, 5);
    }
    vocabulary.tokens[id] = piece;
    vocabulary.types[id] = type;
  };
  for (const auto& [piece, id] : root["model"]["vocab"].items()) put(id, piece, 1);
  for (const Json& token : root["added_tokens"]) {
    put(token["id"], token["content"], token["special"] ? 3 : 4);
  }
  for (const Json& merge : root["model"]["merges"]) {
    vocabulary.merges.push_back(merge.is_string() ? merge.get<std::string>()
                                                  : merge[0].get<std::string>() + " " +
                                                        merge[1].get<std::string>());
  }
  return vocabulary;
}

void CheckAsGguf(const std::filesystem::path& dir, const std::string& name,
                 const std::string& pre) {
  const std::string json = test::ReadZstd(dir / (name + ".tokenizer.json.zst"));
  const Tokenizer tokenizer = Tokenizer::Create(AsGguf(json, pre));
  for (const Json& line : test::ReadJsonLines(dir / (name + ".cases.jsonl"))) {
    SCOPED_TRACE(line.dump());
    const auto ids = line["ids"].get<Ids>();
    EXPECT_EQ(tokenizer.Encode(line["text"].get<std::string>(), kNoBos), ids);
    EXPECT_EQ(tokenizer.Decode(ids), line["decoded"].get<std::string>());
  }
}

TEST(GgufVocabulary, DeepSeekV3IsAsItsTokenizerJson) {
  CheckAsGguf(test::DataDir(), "deepseek_v3", "deepseek-v3");
}

TEST(GgufVocabulary, Qwen3IsAsItsTokenizerJson) {
  CheckAsGguf(test::DataDir(), "qwen3", "qwen2");
}

TEST(GgufVocabulary, Llama3IsAsItsTokenizerJson) {
  if (!HaveFixtures()) GTEST_SKIP() << "no fixtures in " << test::FixtureDir();
  CheckAsGguf(test::FixtureDir() / "tokenizer", "llama3", "llama-bpe");
}

TEST(TokenizerVectors, Qwen) {
  if (!HaveFixtures()) GTEST_SKIP() << "no fixtures in " << test::FixtureDir();
  const Tokenizer tokenizer = test::LoadGolden(test::DataDir(), "qwen3");
  CheckVectors(tokenizer, "qwen2");
  CheckVectors(tokenizer, "deepseek-r1-qwen");
}

TEST(TokenizerVectors, Llama3) {
  if (!HaveFixtures()) GTEST_SKIP() << "no fixtures in " << test::FixtureDir();
  CheckVectors(test::LoadGolden(test::FixtureDir() / "tokenizer", "llama3"), "llama-bpe");
}

}  // namespace
}  // namespace hadal
