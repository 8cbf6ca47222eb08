#include "formats/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "tensor/half.h"

namespace hadal {
namespace {

const std::filesystem::path kModels = HADAL_SOURCE_DIR "/tests/data/models";

std::vector<float> Values(const TensorView& view) {
  std::vector<float> out(view.elements());
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t half = 0;
    switch (view.dtype) {
      case DType::kF32:
        std::memcpy(&out[i], view.data.data() + i * 4, 4);
        break;
      case DType::kBF16:
        std::memcpy(&half, view.data.data() + i * 2, 2);
        out[i] = Bf16ToF32(half);
        break;
      case DType::kF16:
        std::memcpy(&half, view.data.data() + i * 2, 2);
        out[i] = F16ToF32(half);
        break;
      default:
        ADD_FAILURE() << "unexpected type " << Name(view.dtype);
        return {};
    }
  }
  return out;
}

// Rows of q and k in a GGUF file of architecture llama: [heads, d/2, 2] of HF's [heads, 2, d/2].
std::vector<float> PermuteHeads(const std::vector<float>& rows, uint64_t n_rows, uint64_t d) {
  const uint64_t cols = rows.size() / n_rows;
  std::vector<float> out(rows.size());
  for (uint64_t r = 0; r < n_rows; ++r) {
    const uint64_t i = r % d;
    const uint64_t target = r / d * d + (i < d / 2 ? 2 * i : 2 * (i - d / 2) + 1);
    std::copy_n(rows.begin() + static_cast<ptrdiff_t>(r * cols), cols,
                out.begin() + static_cast<ptrdiff_t>(target * cols));
  }
  return out;
}

class Fixture : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path folder() const { return kModels / GetParam(); }
};

TEST_P(Fixture, BothFormatsHoldTheSameModel) {
  const Checkpoint hf = Checkpoint::Open(folder());
  EXPECT_EQ(hf.format(), "safetensors");
  if (!std::filesystem::exists(folder() / "model.gguf")) GTEST_SKIP() << "no GGUF of this model";
  const Checkpoint gguf = Checkpoint::Open(folder() / "model.gguf");
  EXPECT_EQ(gguf.format(), "GGUF v3");
  const ModelSpec& a = hf.spec();
  const ModelSpec& b = gguf.spec();
  EXPECT_EQ(a.architecture, b.architecture);
  EXPECT_EQ(a.vocab, b.vocab);
  EXPECT_EQ(a.norm_eps, b.norm_eps);
  EXPECT_EQ(a.tied_embeddings, b.tied_embeddings);
  EXPECT_EQ(a.max_context, b.max_context);
  EXPECT_EQ(a.eos_ids, b.eos_ids);
  EXPECT_EQ(a.bos_id, b.bos_id);
  EXPECT_NEAR(a.attention.softmax_scale, b.attention.softmax_scale, 1e-7);
  ASSERT_EQ(hf.tensors().size(), gguf.tensors().size());
  const bool permuted = b.rope.layout != a.rope.layout;
  for (const Checkpoint::Entry& entry : hf.tensors()) {
    const TensorView& other = gguf.tensor(entry.name);
    EXPECT_EQ(entry.view.shape, other.shape) << entry.name;
    std::vector<float> values = Values(entry.view);
    const bool qk = entry.name.ends_with(".q") || entry.name.ends_with(".k") ||
                    entry.name.ends_with(".q.bias") || entry.name.ends_with(".k.bias");
    if (permuted && qk) values = PermuteHeads(values, entry.view.shape[0], a.attention.head_dim);
    EXPECT_EQ(values, Values(other)) << entry.name;
  }
}

TEST_P(Fixture, VocabularyOpensAlone) {
  const Vocabulary vocabulary = Checkpoint::OpenVocabulary(folder());
  EXPECT_FALSE(vocabulary.tokenizer_json.empty());
  EXPECT_EQ(vocabulary.chat_template.substr(0, 11), "{% for m in");
  if (!std::filesystem::exists(folder() / "model.gguf")) return;
  const Vocabulary gguf = Checkpoint::OpenVocabulary(folder() / "model.gguf");
  EXPECT_EQ(gguf.model, "gpt2");
  EXPECT_EQ(gguf.pre, "gpt-2");
  EXPECT_EQ(gguf.add_bos, 0);
  EXPECT_EQ(gguf.tokens.size(), gguf.types.size());
  const Json tokenizer = ParseJson(vocabulary.tokenizer_json, "tokenizer.json");
  for (const auto& [token, id] : tokenizer["model"]["vocab"].items()) {
    EXPECT_EQ(gguf.tokens.at(id.get<size_t>()), token);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Fixture,
                         testing::Values("deepseek_v2_group", "deepseek_v2_lite",
                                         "deepseek_v2_lite_normtopk", "deepseek_v3",
                                         "deepseek_v3_fp8_mtp", "deepseek_v3_nogroup", "llama_bias",
                                         "llama_gqa", "llama_rope_dynamic", "llama_rope_linear",
                                         "llama_rope_llama3", "llama_rope_yarn", "mistral_swa",
                                         "qwen2_swa_mixed", "qwen2_tied", "qwen3"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace hadal
