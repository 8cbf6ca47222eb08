// What a loaded model promises beside its numbers: exact bytes, progress, a watchdog that names the
// culprit; and reef, the one model here whose answers mean something.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/error.h"
#include "devices.h"
#include "golden_files.h"
#include "model/watchdog.h"
#include "step_driver.h"

namespace hadal::testing {
namespace {

Device BestDevice() {
  return {SupportedIsaLevels().back(), 2};
}

StepLimits SmallLimits() {
  return {.max_tokens = 64, .max_sequences = 2, .max_logit_rows = 64, .max_context = 128};
}

TEST(Model, BytesAreWhatWasPlanned) {
  for (const Device& device : {Device{}, BestDevice()}) {
    const std::unique_ptr<Backend> backend = device.Make();
    for (const std::string& name : GoldenNames(ModelsDir())) {
      for (const WeightPolicy policy :
           {WeightPolicy::kAsStored, WeightPolicy::kF32, WeightPolicy::kBf16, WeightPolicy::kQ8,
            WeightPolicy::kQ4}) {
        const Checkpoint checkpoint = Checkpoint::Open(ModelsDir() / name);
        Model model = Model::Load(checkpoint, *backend, {.policy = policy, .progress = {}});
        model.Reserve(SmallLimits());
        EXPECT_EQ(model.bytes().weights, PlanWeightBytes(checkpoint, *backend, policy)) << name;
        EXPECT_EQ(model.bytes().activations, Model::ActivationBytes(model.spec(), SmallLimits()));
        EXPECT_LE(model.bytes().step_weights, model.bytes().weights);
        EXPECT_GT(model.bytes().step_weights, 0u);
      }
    }
  }
}

// Bytes of the logits of a few tokens.
std::vector<float> SomeLogits(Model& model) {
  DriverOptions options;
  options.limits = SmallLimits();
  StepDriver driver(model, options);
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 5};
  const Rows rows = driver.Feed(0, prompt, 0);
  return {rows.row(0), rows.row(0) + uint64_t{rows.n} * rows.cols};
}

// Whichever ISA level kept them.
TEST(Model, KeptWeightsGiveTheSameLogits) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("hadal_kept_{}", getpid());
  for (const std::string& name : GoldenNames(ModelsDir())) {
    for (const WeightPolicy policy : {WeightPolicy::kAsStored, WeightPolicy::kQ4}) {
      const Checkpoint checkpoint = Checkpoint::Open(ModelsDir() / name);
      const LoadOptions options = {.policy = policy, .cache = {.folder = folder, .min_bytes = 0}};
      EXPECT_FALSE(
          Model::Load(checkpoint, *BestDevice().Make(), options).load_outcome().from_cache);
      for (const Device& device : CpuDevices({1})) {
        const std::unique_ptr<Backend> backend = device.Make();
        Model packed = Model::Load(checkpoint, *backend, {.policy = policy});
        Model read = Model::Load(checkpoint, *backend, options);
        EXPECT_TRUE(read.load_outcome().from_cache) << read.load_outcome().why_not_kept;
        EXPECT_EQ(read.bytes().weights, packed.bytes().weights);
        const std::vector<float> expected = SomeLogits(packed);
        const std::vector<float> got = SomeLogits(read);
        ASSERT_EQ(got.size(), expected.size());
        EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0)
            << name << ", " << device.Label();
      }
    }
  }
  std::filesystem::remove_all(folder);
}

TEST(Model, ProgressReachesTheTotalAndMayCancel) {
  const std::unique_ptr<Backend> backend = MakeRefBackend();
  const Checkpoint checkpoint = Checkpoint::Open(ModelsDir() / "deepseek_v3");
  uint64_t last = 0;
  uint64_t calls = 0;
  const auto watch = [&](uint64_t done, uint64_t total) {
    EXPECT_GT(done, last);
    EXPECT_LE(done, total);
    last = done;
    ++calls;
    EXPECT_EQ(done == total, calls == checkpoint.tensors().size());
  };
  Model::Load(checkpoint, *backend, {.policy = WeightPolicy::kF32, .progress = watch});
  EXPECT_EQ(calls, checkpoint.tensors().size());
  const auto cancel = [](uint64_t, uint64_t) { Fail(ErrorKind::kCancelled, "stopped"); };
  EXPECT_THROW(
      Model::Load(checkpoint, *backend, {.policy = WeightPolicy::kF32, .progress = cancel}), Error);
}

TEST(Model, WatchdogNamesTheFirstBadOutput) {
  const std::unique_ptr<Backend> backend = MakeRefBackend();
  const Checkpoint checkpoint = Checkpoint::Open(ModelsDir() / "llama_gqa");
  Model model = Model::Load(checkpoint, *backend, {});
  DriverOptions options;
  options.limits = SmallLimits();
  StepDriver driver(model, options);
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 5};
  driver.Feed(0, prompt, 0);
  const std::vector<int32_t> next = {6, 7};
  const Piece piece{0, next, 7};
  const StepInput step = driver.Prepare(std::span(&piece, 1));
  EXPECT_FALSE(FindNonFinite(model, step, driver.kv()).found);

  // A damaged cache entry of layer 1: the last layer of a page half, whatever the page.
  Buffer& arena = driver.kv().arenas[0];
  const KvLayout& layout = driver.kv().layout;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const uint32_t page = step.groups[0].pages[0];
  driver.model().backend().CopyIn(std::as_bytes(std::span(&nan, 1)), arena,
                                  layout.VTileOffset(1, page, 0, 0));
  const NonFiniteReport report = FindNonFinite(model, step, driver.kv());
  EXPECT_TRUE(report.found);
  EXPECT_EQ(report.layer, 1u);
  EXPECT_EQ(report.where, "layer 1, attention");
  EXPECT_EQ(report.row, 0u);
}

// models/reef: FP8 weights, exactly dequantized.
void CheckReef(const Device& device, size_t longest_prompt) {
  const std::filesystem::path dir = SourceDir() / "models" / "reef";
  const Json golden = ReadJson(dir / "golden_fp8.json");
  const std::unique_ptr<Backend> backend = device.Make();
  const Checkpoint checkpoint = Checkpoint::Open(dir);
  Model model = Model::Load(checkpoint, *backend, {.policy = WeightPolicy::kF32, .progress = {}});
  DriverOptions options;
  options.limits = {
      .max_tokens = 512, .max_sequences = 1, .max_logit_rows = 512, .max_context = 1024};
  StepDriver driver(model, options);
  int checked = 0;
  for (const Json& item : golden.at("cases")) {
    const std::vector<int32_t> prompt = item.at("prompt_ids");
    if (prompt.size() > longest_prompt) continue;
    SCOPED_TRACE(item.at("name").get<std::string>());
    const Rows rows = driver.Feed(0, prompt, 500);
    const std::vector<float> expected = item.at("logits_last");
    EXPECT_LE(RelativeL2(rows.row(rows.n - 1), expected.data(), rows.cols), 1e-5);
    const std::vector<int32_t> greedy = item.at("greedy_ids");
    if (item.at("greedy_confirmed").get<bool>() && item.at("greedy_min_margin") > 0.02) {
      const auto n = static_cast<uint32_t>(greedy.size());
      EXPECT_EQ(driver.Greedy(0, rows.row(rows.n - 1), n), greedy);
      ++checked;
    }
    driver.Forget(0);
  }
  EXPECT_GE(checked, 5);
}

TEST(Reef, AnswersAsItsReferenceDoes) {
  CheckReef(BestDevice(), 1024);
}
TEST(Reef, AlsoOnTheReferenceBackend) {
  CheckReef(Device{}, 12);
}

}  // namespace
}  // namespace hadal::testing
