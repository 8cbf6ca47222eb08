#include "formats/quantize.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "formats/gguf_writer.h"
#include "formats/testing.h"
#include "quant/blocks.h"

namespace hadal {
namespace {

using formats_testing::Message;
using formats_testing::Models;
using formats_testing::TempFolder;

std::vector<float> Values(const TensorView& view) {
  std::vector<float> out(view.elements());
  DequantizeRows(view, 0, view.rows(), out);
  return out;
}

double RelativeError(const std::vector<float>& expected, const std::vector<float>& found) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(double{expected[i]} - double{found[i]}, 2);
    norm += std::pow(double{expected[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

class Converted : public testing::TestWithParam<const char*> {};

// The fixture's own model.gguf was made by another program: what we write from the folder must hold
// the same tensors, bit for bit, and the same spec.
TEST_P(Converted, FolderBecomesTheKnownGguf) {
  const TempFolder temp;
  const auto folder = Models() / GetParam();
  const Checkpoint source = Checkpoint::Open(folder);
  QuantizeCheckpoint(source, temp / "out.gguf", DType::kF32);
  const Checkpoint ours = Checkpoint::Open(temp / "out.gguf");
  const Checkpoint known = Checkpoint::Open(folder / "model.gguf");
  const ModelSpec& a = ours.spec();
  const ModelSpec& b = known.spec();
  EXPECT_EQ(a.architecture, b.architecture);
  EXPECT_EQ(a.attention.softmax_scale, b.attention.softmax_scale);
  EXPECT_EQ(a.attention.head_dim, b.attention.head_dim);
  EXPECT_EQ(a.rope.scaling, b.rope.scaling);
  EXPECT_EQ(a.rope.factor, b.rope.factor);
  EXPECT_EQ(a.rope.theta, b.rope.theta);
  EXPECT_EQ(a.norm_eps, b.norm_eps);
  EXPECT_EQ(a.eos_ids, b.eos_ids);
  EXPECT_EQ(a.moe.has_value(), b.moe.has_value());
  if (a.moe) {
    EXPECT_EQ(a.moe->weight_scale, b.moe->weight_scale);
    EXPECT_EQ(a.moe->n_groups, b.moe->n_groups);
    EXPECT_EQ(a.moe->group_score, b.moe->group_score);
    EXPECT_EQ(a.moe->normalize, b.moe->normalize);
  }
  ASSERT_EQ(ours.tensors().size(), known.tensors().size());
  for (const Checkpoint::Entry& entry : known.tensors()) {
    EXPECT_EQ(Values(ours.tensor(entry.name)), Values(entry.view)) << entry.name;
  }
  EXPECT_EQ(ours.vocabulary().tokens, known.vocabulary().tokens);
  EXPECT_EQ(ours.vocabulary().types, known.vocabulary().types);
  EXPECT_EQ(ours.vocabulary().merges, known.vocabulary().merges);
  EXPECT_EQ(ours.vocabulary().pre, known.vocabulary().pre);
  EXPECT_EQ(ours.vocabulary().add_bos, known.vocabulary().add_bos);
  if (b.rope.scaling == RopeScaling::kFrequencyFactors) {
    for (size_t i = 0; i < b.rope.long_factors.size(); ++i) {
      EXPECT_NEAR(a.rope.long_factors.at(i), b.rope.long_factors[i], 1e-6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Converted,
                         testing::Values("deepseek_v2_group", "deepseek_v2_lite", "deepseek_v3",
                                         "llama_bias", "llama_gqa", "llama_rope_linear",
                                         "llama_rope_llama3", "llama_rope_yarn", "mistral_swa",
                                         "qwen2_tied", "qwen3"),
                         [](const auto& model) { return std::string(model.param); });

TEST(Quantize, GgufToQ8KeepsMetadataAndNames) {
  const TempFolder temp;
  const auto path = Models() / "llama_gqa" / "model.gguf";
  const Checkpoint source = Checkpoint::Open(path);
  const QuantizeReport report = QuantizeCheckpoint(source, temp / "q8.gguf", DType::kQ8_0);
  EXPECT_TRUE(report.fallbacks.empty());
  EXPECT_EQ(report.bytes, std::filesystem::file_size(temp / "q8.gguf"));
  const Checkpoint result = Checkpoint::Open(temp / "q8.gguf");
  EXPECT_EQ(result.spec().name, "llama_gqa");
  for (const Checkpoint::Entry& entry : source.tensors()) {
    const TensorView& view = result.tensor(entry.name);
    const bool matrix = view.shape.size() == 2;
    EXPECT_EQ(view.dtype, matrix ? DType::kQ8_0 : DType::kF32) << entry.name;
    EXPECT_LT(RelativeError(Values(entry.view), Values(view)), 0.01) << entry.name;
  }
  const MappedFile a(path);
  const MappedFile b(temp / "q8.gguf");
  const GgufContents before = ParseGguf(a.bytes(), "a");
  const GgufContents after = ParseGguf(b.bytes(), "b");
  for (const auto& [key, value] : before.metadata) {
    if (key == "general.file_type" || key == "general.alignment") continue;
    const GgufValue* kept = after.Find(key);
    ASSERT_NE(kept, nullptr) << key;
    EXPECT_TRUE(std::equal(value.raw_value.begin(), value.raw_value.end(), kept->raw_value.begin(),
                           kept->raw_value.end()))
        << key;
  }
  EXPECT_EQ(after.Find("general.file_type")->ToJson(), Json(7));
}

TEST(Quantize, RowsThatDoNotDivideFallBackToF16AndAreNamed) {
  const TempFolder temp;
  const Checkpoint source = Checkpoint::Open(Models() / "deepseek_v3");
  const QuantizeReport report = QuantizeCheckpoint(source, temp / "q4.gguf", DType::kQ4_0);
  const auto named = [&](const std::string& name) {
    return std::find(report.fallbacks.begin(), report.fallbacks.end(), name) !=
           report.fallbacks.end();
  };
  EXPECT_TRUE(named("blk.0.attn_q_b.weight"));  // rows of 20
  EXPECT_FALSE(named("token_embd.weight"));     // rows of 32
  const Checkpoint result = Checkpoint::Open(temp / "q4.gguf");
  EXPECT_EQ(result.tensor("embed").dtype, DType::kQ4_0);
  EXPECT_EQ(result.tensor("layers.0.q_b").dtype, DType::kF16);
  EXPECT_EQ(result.tensor("layers.1.router").dtype, DType::kF32);
  EXPECT_EQ(result.tensor("layers.1.experts.3.gate").dtype, DType::kQ4_0);
}

TEST(Quantize, Fp8FolderBecomesExactF32) {
  const TempFolder temp;
  const Checkpoint source =
      Checkpoint::Open(std::filesystem::path(HADAL_SOURCE_DIR) / "models/reef");
  QuantizeCheckpoint(source, temp / "reef.gguf", DType::kF32);
  const Checkpoint result = Checkpoint::Open(temp / "reef.gguf");
  EXPECT_EQ(result.spec().architecture, "deepseek_v3");
  EXPECT_EQ(result.vocabulary().pre, "deepseek-v3");
  EXPECT_EQ(result.vocabulary().add_bos, 1);
  EXPECT_FALSE(result.vocabulary().chat_template.empty());
  for (const Checkpoint::Entry& entry : source.tensors()) {
    ASSERT_EQ(Values(entry.view), Values(result.tensor(entry.name))) << entry.name;
  }
}

TEST(Quantize, RefusesWhatItCannotDo) {
  const TempFolder temp;
  const auto error = [&](const std::string& model, const std::filesystem::path& out, DType type) {
    const Checkpoint source = Checkpoint::Open(Models() / model);
    return Message([&] { QuantizeCheckpoint(source, out, type); });
  };
  EXPECT_NE(error("llama_rope_dynamic", temp / "x", DType::kF16).find("GGUF cannot express"),
            std::string::npos);
  EXPECT_NE(error("qwen2_swa_mixed", temp / "x", DType::kF16).find("some layers only"),
            std::string::npos);
  EXPECT_NE(error("qwen3", temp / "x", DType::kI8).find("cannot quantize to i8"),
            std::string::npos);
  EXPECT_NE(error("qwen3", "/no/such/folder/x.gguf", DType::kF16).find("cannot create"),
            std::string::npos);
  EXPECT_NE(error("qwen3", temp.path(), DType::kF16).find("name the file to write"),
            std::string::npos);
  const Checkpoint source = Checkpoint::Open(Models() / "qwen3" / "model.gguf");
  EXPECT_NE(Message([&] {
              QuantizeCheckpoint(source, Models() / "qwen3" / "model.gguf", DType::kF16);
            }).find("would overwrite"),
            std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
}

TEST(Quantize, StoppingLeavesNothingBehind) {
  const TempFolder temp;
  const Checkpoint source = Checkpoint::Open(Models() / "qwen3");
  uint64_t total = 0;
  const auto stop = [&](uint64_t done, uint64_t all) {
    total = all;
    return done < all / 2;
  };
  EXPECT_THROW(QuantizeCheckpoint(source, temp / "x.gguf", DType::kF16, stop), Error);
  EXPECT_GT(total, 0u);
  EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
}

TEST(GgufWriter, FullDiskIsAnErrorThatNamesTheFile) {
  // A limit on file sizes fails the same write as a full disk does.
  const TempFolder temp;
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 100'000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Checkpoint source = Checkpoint::Open(Models() / "llama_gqa");
  const std::string error =
      Message([&] { QuantizeCheckpoint(source, temp / "x.gguf", DType::kF32); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(error.find("x.gguf.partial: cannot write: File too large"), std::string::npos) << error;
  EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
}

TEST(GgufWriter, EveryKindOfValueComesBack) {
  const TempFolder temp;
  {
    GgufWriter writer(temp / "x.gguf");
    writer.SetU32("a.u32", 4000000000);
    writer.SetF32("a.f32", 0.1f);
    writer.SetBool("a.bool", true);
    writer.SetString("a.text", "déjà\n");
    writer.SetStrings("a.texts", {"", "b", "cc"});
    writer.SetI32s("a.i32s", std::vector<int32_t>{-1, 2});
    writer.SetF32s("a.f32s", std::vector<float>{0.5f});
    const std::vector<uint64_t> shape = {2, 3};
    writer.AddTensor("w", DType::kF32, shape);
    const std::vector<float> values = {1, 2, 3, 4, 5, 6};
    writer.Append(std::as_bytes(std::span(values)).first(5));
    writer.Append(std::as_bytes(std::span(values)).subspan(5));
    EXPECT_FALSE(std::filesystem::exists(temp / "x.gguf"));
    writer.Finish();
  }
  const MappedFile file(temp / "x.gguf");
  const GgufContents contents = ParseGguf(file.bytes(), "x");
  EXPECT_EQ(contents.Find("a.u32")->ToJson(), Json(4000000000u));
  EXPECT_EQ(contents.Find("a.f32")->ToJson(), Json(0.1f));
  EXPECT_EQ(contents.Find("a.bool")->ToJson(), Json(true));
  EXPECT_EQ(contents.Find("a.text")->ToJson(), Json("déjà\n"));
  EXPECT_EQ(contents.Find("a.texts")->ToJson(), Json({"", "b", "cc"}));
  EXPECT_EQ(contents.Find("a.i32s")->ToJson(), Json({-1, 2}));
  EXPECT_EQ(contents.Find("a.f32s")->ToJson(), Json(Json::array({0.5f})));
  EXPECT_EQ(Values(contents.tensors.at(0)), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_FALSE(std::filesystem::exists(temp / "x.gguf.partial"));
}

}  // namespace
}  // namespace hadal
