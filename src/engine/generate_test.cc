#include "engine/generate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/utf8.h"
#include "engine/engine_test_stack.h"

namespace hadal {
namespace {

constexpr StepLimits kLimits{
    .max_tokens = 32, .max_sequences = 4, .max_logit_rows = 32, .max_context = 256};

class GenerateTest : public testing::Test {
 protected:
  GenerateTest()
      : stack_(kModels / "llama_gqa", kLimits, 32),
        tokenizer_(Tokenizer::Create(stack_.checkpoint.vocabulary())) {
    const std::filesystem::path path = kModels / "llama_gqa" / "golden.json";
    const Json golden = ParseJson(ReadTextFile(path), path.string());
    request_.prompt = golden["prompt_ids"].get<std::vector<int32_t>>();
    request_.max_tokens = 40;
    request_.sampling.temperature = 0;
  }
  Stack stack_;
  Tokenizer tokenizer_;
  Request request_;
};

TEST_F(GenerateTest, StreamsWhatDecodingAtOnceGives) {
  std::string streamed;
  GenerateOptions options;
  options.skip_special = false;
  options.on_text = [&](std::string_view text) {
    EXPECT_FALSE(text.empty());
    EXPECT_EQ(FindInvalidUtf8(text), std::string::npos);
    streamed += text;
  };
  const GenerateResult result = Generate(*stack_.engine, tokenizer_, request_, options);
  EXPECT_EQ(result.tokens.size(), 40u);
  EXPECT_EQ(result.reason, FinishReason::kLength);
  EXPECT_EQ(result.text, tokenizer_.Decode(result.tokens));
  EXPECT_EQ(streamed, result.text);
}

TEST_F(GenerateTest, StopStringsAndTokensEndTheText) {
  GenerateOptions options;
  options.skip_special = false;
  const GenerateResult whole = Generate(*stack_.engine, tokenizer_, request_, options);
  ASSERT_GT(whole.text.size(), 12u);
  // A stop string from the middle of the text, cut at characters.
  size_t begin = whole.text.size() / 2, end = begin + 4;
  while (CompleteUtf8Prefix(whole.text.substr(0, begin)) != begin) ++begin;
  while (CompleteUtf8Prefix(whole.text.substr(0, end)) != end) ++end;
  const std::string stop = whole.text.substr(begin, end - begin);
  options.stop_strings = {stop};
  const GenerateResult cut = Generate(*stack_.engine, tokenizer_, request_, options);
  EXPECT_EQ(cut.text, whole.text.substr(0, whole.text.find(stop)));
  EXPECT_EQ(cut.reason, FinishReason::kStop);
  EXPECT_EQ(cut.stop_string, stop);
  EXPECT_LT(cut.tokens.size(), 40u);
  EXPECT_EQ(cut.usage.generated_tokens, cut.tokens.size());

  options.stop_strings.clear();
  request_.eos_ids = {whole.tokens[6]};
  const GenerateResult eos = Generate(*stack_.engine, tokenizer_, request_, options);
  EXPECT_EQ(eos.reason, FinishReason::kStop);
  EXPECT_EQ(eos.stop_string, std::nullopt);
  // The end token counts, but is not part of the text.
  EXPECT_EQ(eos.text, tokenizer_.Decode({eos.tokens.data(), eos.tokens.size() - 1}));

  options.stop_strings = {""};
  EXPECT_THROW(Generate(*stack_.engine, tokenizer_, request_, options), Error);
}

TEST_F(GenerateTest, MinTokensPostponeTheEnd) {
  GenerateOptions options;
  const GenerateResult whole = Generate(*stack_.engine, tokenizer_, request_, options);
  request_.eos_ids = {whole.tokens[0]};
  request_.sampling.min_tokens = 10;
  const GenerateResult result = Generate(*stack_.engine, tokenizer_, request_, options);
  EXPECT_GE(result.tokens.size(), 10u);
  for (size_t i = 0; i < 10; ++i) EXPECT_NE(result.tokens[i], request_.eos_ids[0]);
}

TEST_F(GenerateTest, CanBeCancelled) {
  GenerateOptions options;
  int tokens = 0;
  options.on_token = [&](const TokenEvent&) { ++tokens; };
  options.cancelled = [&] { return tokens >= 3; };
  request_.max_tokens = 200;
  const GenerateResult result = Generate(*stack_.engine, tokenizer_, request_, options);
  EXPECT_EQ(result.reason, FinishReason::kCancelled);
  EXPECT_GE(result.tokens.size(), 3u);
}

// A copy of the model that overflows for one token: the first norm's weight in dimension 0 is the
// largest number there is, and only that token's embedding is not zero there.
class BrokenModel : public GenerateTest {
 protected:
  static constexpr int32_t kBadToken = 5;

  static std::filesystem::path Make() {
    const std::filesystem::path copy =
        std::filesystem::path(testing::TempDir()) / fmt::format("hadal_broken_{}", getpid());
    std::filesystem::create_directories(copy);
    for (const auto& entry : std::filesystem::directory_iterator(kModels / "llama_gqa")) {
      if (entry.path().extension() == ".gguf") continue;
      std::filesystem::copy_file(entry.path(), copy / entry.path().filename(),
                                 std::filesystem::copy_options::overwrite_existing);
    }
    for (const auto& entry : std::filesystem::directory_iterator(copy)) {
      if (entry.path().extension() == ".safetensors") Poison(entry.path());
    }
    return copy;
  }
  static void Poison(const std::filesystem::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    uint64_t header_size = 0;
    file.read(reinterpret_cast<char*>(&header_size), sizeof(header_size));
    std::string header(header_size, ' ');
    file.read(header.data(), static_cast<std::streamsize>(header_size));
    const Json json = Json::parse(header);
    const auto write = [&](const Json& tensor, uint64_t element, uint16_t bf16) {
      ASSERT_EQ(tensor["dtype"], "BF16");
      const auto begin = tensor["data_offsets"][0].get<uint64_t>();
      file.seekp(static_cast<std::streamoff>(8 + header_size + begin + element * 2));
      file.write(reinterpret_cast<const char*>(&bf16), sizeof(bf16));
    };
    if (json.contains("model.layers.0.input_layernorm.weight")) {
      write(json["model.layers.0.input_layernorm.weight"], 0, 0x7F7F);
    }
    if (!json.contains("model.embed_tokens.weight")) return;
    const Json& embed = json["model.embed_tokens.weight"];
    const auto columns = embed["shape"][1].get<uint64_t>();
    for (uint64_t token = 0; token < embed["shape"][0].get<uint64_t>(); ++token) {
      write(embed, token * columns, token == kBadToken ? 0x42C8 : 0);  // 100 or 0
    }
  }
};

TEST_F(BrokenModel, OnlyTheRequestThatOverflowsFailsAndSaysWhere) {
  const std::filesystem::path path = Make();
  {
    Stack broken(path, kLimits, 32);
    Request bad = request_;
    bad.prompt = {1, 2, kBadToken, 3};
    Request good = request_;
    good.prompt = {1, 2, 3};
    good.max_tokens = 4;
    const GenerateResult expected = Generate(*broken.engine, tokenizer_, good, {});
    RequestHandle fails = broken.engine->Submit(bad);
    EXPECT_EQ(Generate(*broken.engine, tokenizer_, good, {}).tokens, expected.tokens);
    const std::optional<RequestEvent> event = fails.Next();
    ASSERT_TRUE(event && std::holds_alternative<FinishedEvent>(*event));
    const auto& end = std::get<FinishedEvent>(*event);
    ASSERT_TRUE(end.error.has_value());
    EXPECT_EQ(end.error->kind(), ErrorKind::kNumeric);
    EXPECT_NE(end.error->message().find("layer 0"), std::string::npos) << end.error->message();
  }
  std::filesystem::remove_all(path);
}

}  // namespace
}  // namespace hadal
