// What a KV cache of fewer bits costs, against references computed without any: every golden model
// and reef, weights in f32, so that the cache alone differs.
#include <gtest/gtest.h>

#include <limits>

#include "devices.h"
#include "golden_files.h"
#include "model/watchdog.h"
#include "step_driver.h"

namespace hadal::testing {
namespace {

// Bounds of the relative L2 error of logits. Random weights are harsher than trained ones; and in
// models with experts a small error can choose another expert, which is a jump.
struct KvCase {
  KvType type;
  double dense;
  double experts;
  double reef;
};
const KvCase kCases[] = {{{"f32", DType::kF32}, 1e-5, 1e-5, 1e-5},
                         {{"bf16", DType::kBF16}, 0.01, 0.3, 0.02},
                         {{"int8", DType::kI8}, 0.025, 0.3, 0.15},
                         {{"fp8", DType::kF8E4M3}, 0.1, 0.3, 0.3}};

class KvTypes : public ::testing::TestWithParam<KvCase> {
 protected:
  // The model and a driver for steps of any length.
  void Open(const std::filesystem::path& dir, const Device& device) {
    driver_.reset();
    model_.reset();
    backend_ = device.Make();
    model_.emplace(Model::Load(Checkpoint::Open(dir), *backend_,
                               {.policy = WeightPolicy::kF32, .progress = {}}));
    DriverOptions options;
    options.kv_dtype = GetParam().type.dtype;
    options.limits = {
        .max_tokens = 512, .max_sequences = 1, .max_logit_rows = 512, .max_context = 1024};
    driver_.emplace(*model_, options);
  }

  std::unique_ptr<Backend> backend_;
  std::optional<Model> model_;
  std::optional<StepDriver> driver_;
};

Device Best() {
  return {SupportedIsaLevels().back(), 2};
}

TEST_P(KvTypes, LogitsOfGoldenModels) {
  double worst = 0;
  for (const std::string& name : GoldenNames(ModelsDir())) {
    SCOPED_TRACE(name);
    const std::filesystem::path dir = ModelsDir() / name;
    const Json json = ReadJson(dir / "golden.json");
    const std::vector<int32_t> prompt = json.at("prompt_ids");
    for (const Device& device : {Best(), Device{}}) {
      Open(dir, device);
      const Rows expected = ReadRows(dir / json.at("logits_all_file").get<std::string>(),
                                     static_cast<uint32_t>(prompt.size()), model_->spec().vocab);
      const Rows got = driver_->Feed(0, prompt, 7);
      const double error =
          RelativeL2(got.values.data(), expected.values.data(), expected.values.size());
      EXPECT_LE(error, model_->spec().moe ? GetParam().experts : GetParam().dense);
      // The cache is indeed of this type: all but one lose something.
      EXPECT_EQ(error > 1e-4, GetParam().type.dtype != DType::kF32);
      worst = std::max(worst, error);
    }
  }
  std::printf("worst relative L2 %.2g\n", worst);
}

TEST_P(KvTypes, ReefAnswersAsWithAnExactCache) {
  const std::filesystem::path dir = SourceDir() / "models" / "reef";
  Open(dir, Best());
  double worst = 0;
  double sum = 0;
  int same = 0;
  int all = 0;
  const Json golden = ReadJson(dir / "golden_fp8.json");
  for (const Json& item : golden.at("cases")) {
    const std::vector<int32_t> prompt = item.at("prompt_ids");
    const std::vector<int32_t> greedy = item.at("greedy_ids");
    const std::vector<float> expected = item.at("logits_last");
    const Rows rows = driver_->Feed(0, prompt, 500);
    const float* last = rows.row(rows.n - 1);
    const double error = RelativeL2(last, expected.data(), rows.cols);
    EXPECT_LE(error, GetParam().reef) << item.at("name");
    worst = std::max(worst, error);
    sum += error;
    same += driver_->Greedy(0, last, static_cast<uint32_t>(greedy.size())) == greedy;
    ++all;
    driver_->Forget(0);
  }
  EXPECT_GE(same, all * 9 / 10);
  EXPECT_GE(all, 40);
  std::printf("worst relative L2 %.2g, mean %.3g; %d of %d answers equal\n", worst, sum / all, same,
              all);
}

// What a NaN leaves in an 8-bit tile is its scale.
TEST_P(KvTypes, WatchdogSeesADamagedEntry) {
  Open(ModelsDir() / "llama_gqa", Best());
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 5};
  driver_->Feed(0, prompt, 0);
  const std::vector<int32_t> next = {6, 7};
  const Piece piece{0, next, 7};
  const StepInput step = driver_->Prepare(std::span(&piece, 1));
  EXPECT_FALSE(FindNonFinite(*model_, step, driver_->kv()).found);
  const KvLayout& layout = driver_->kv().layout;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  driver_->model().backend().CopyIn(std::as_bytes(std::span(&nan, 1)), driver_->kv().arenas[0],
                                    layout.VTileOffset(1, step.groups[0].pages[0], 0, 0) +
                                        (layout.scaled ? layout.v_scales_at : 0));
  const NonFiniteReport report = FindNonFinite(*model_, step, driver_->kv());
  EXPECT_TRUE(report.found);
  EXPECT_EQ(report.where, "layer 1, attention");
}

INSTANTIATE_TEST_SUITE_P(All, KvTypes, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.type.name); });

}  // namespace
}  // namespace hadal::testing
