// Every golden model, on every device, in every way of feeding it, against logits, greedy tokens,
// hidden states and router choices that programs sharing no code with this one computed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "devices.h"
#include "golden_files.h"
#include "step_driver.h"

namespace hadal::testing {
namespace {

// Relative L2 of logits and hidden states with f32 weights and cache. Independent f32
// implementations come within 3e-6 of the f64 references.
constexpr double kTolerance = 1e-5;

struct GoldenCase {
  std::filesystem::path dir;
  bool gguf = false;
  Device device;

  std::string Name() const {
    return dir.filename().string() + (gguf ? "_gguf_" : "_hf_") + device.Label();
  }
};

std::vector<GoldenCase> AllCases() {
  std::vector<Device> devices = CpuDevices({1});
  devices.push_back({std::nullopt, 1});
  std::vector<GoldenCase> cases;
  for (const auto& dir : {ModelsDir(), SourceDir() / "tests" / "data" / "generated"}) {
    for (const std::string& name : GoldenNames(dir)) {
      for (const Device& device : devices) {
        if (std::filesystem::exists(dir / name / "config.json")) {
          cases.push_back({dir / name, false, device});
        }
        if (std::filesystem::exists(dir / name / "model.gguf")) {
          cases.push_back({dir / name, true, device});
        }
      }
    }
  }
  return cases;
}

class Goldens : public ::testing::TestWithParam<GoldenCase> {
 protected:
  void SetUp() override {
    const GoldenCase& golden = GetParam();
    golden_ = ReadJson(golden.dir / "golden.json");
    const Checkpoint checkpoint =
        Checkpoint::Open(golden.gguf ? golden.dir / "model.gguf" : golden.dir);
    backend_ = golden.device.Make();
    model_.emplace(
        Model::Load(checkpoint, *backend_, {.policy = WeightPolicy::kF32, .progress = {}}));
    vocab_ = model_->spec().vocab;
    DriverOptions options;
    options.limits = {
        .max_tokens = 256, .max_sequences = 4, .max_logit_rows = 256, .max_context = 256};
    driver_.emplace(*model_, options);
  }

  // What the reference says about one of the two prompts.
  struct Expected {
    std::vector<int32_t> prompt, greedy;
    std::vector<uint32_t> positions;  // of rows
    Rows rows;
    bool last_only = false;  // the GGUF file means another model: only its last row is known
  };

  Expected Read(bool is_long) const {
    const GoldenCase& golden = GetParam();
    const Json& json = is_long ? golden_.at("long") : golden_;
    Expected expected;
    json.at("prompt_ids").get_to(expected.prompt);
    json.at("greedy_ids").get_to(expected.greedy);
    const char* gguf_key = is_long ? "gguf_long_logits_last" : "gguf_logits_last";
    const auto length = static_cast<uint32_t>(expected.prompt.size());
    if (golden.gguf && golden_.contains(gguf_key)) {
      expected.last_only = true;
      expected.positions = {length - 1};
      expected.rows = {1, vocab_, golden_.at(gguf_key).get<std::vector<float>>()};
      return expected;
    }
    if (is_long) {
      json.at("rows").get_to(expected.positions);
    } else {
      for (uint32_t i = 0; i < length; ++i) expected.positions.push_back(i);
    }
    expected.rows =
        ReadRows(golden.dir / json.at(is_long ? "rows_file" : "logits_all_file").get<std::string>(),
                 static_cast<uint32_t>(expected.positions.size()), vocab_);
    return expected;
  }

  void CheckLogits(const Rows& got, const Expected& expected) {
    std::vector<float> chosen;
    for (const uint32_t position : expected.positions) {
      chosen.insert(chosen.end(), got.row(position), got.row(position) + vocab_);
    }
    const double error = RelativeL2(chosen.data(), expected.rows.values.data(), chosen.size());
    EXPECT_LE(error, kTolerance);
    worst_ = std::max(worst_, error);
  }

  void CheckPrompt(const Expected& expected, uint32_t chunk) {
    SCOPED_TRACE("prompt of " + std::to_string(expected.prompt.size()) + ", chunks of " +
                 std::to_string(chunk));
    const Rows got = driver_->Feed(0, expected.prompt, chunk);
    CheckLogits(got, expected);
    if (!expected.last_only) {
      const auto n = static_cast<uint32_t>(expected.greedy.size());
      EXPECT_EQ(driver_->Greedy(0, got.row(got.n - 1), n), expected.greedy);
    }
    driver_->Forget(0);
  }

  Json golden_;
  std::unique_ptr<Backend> backend_;
  std::optional<Model> model_;
  std::optional<StepDriver> driver_;
  uint32_t vocab_ = 0;
  double worst_ = 0;
};

TEST_P(Goldens, LogitsAndGreedyTokens) {
  // The reference is slow; how a prompt is cut matters to the attention kernels alone.
  const std::vector<uint32_t> chunks = GetParam().device.isa
                                           ? std::vector<uint32_t>{0, 1, 7, 15, 16, 17}
                                           : std::vector<uint32_t>{0, 7};
  for (const bool is_long : {false, true}) {
    const Expected expected = Read(is_long);
    for (const uint32_t chunk : chunks) CheckPrompt(expected, chunk);
  }
  RecordProperty("worst_relative_l2", std::to_string(worst_));
  std::printf("worst relative L2 %.2g\n", worst_);
}

// Both prompts and a third, cut differently, share their steps.
TEST_P(Goldens, AmongOthers) {
  const Expected a = Read(false);
  const Expected b = Read(true);
  const std::vector<int32_t> c(b.prompt.rbegin(), b.prompt.rend());
  struct Feeding {
    std::span<const int32_t> prompt;
    uint32_t chunk;
    uint32_t at = 0;
    Rows rows = {};
  };
  Feeding feedings[] = {{c, 23}, {a.prompt, 5}, {b.prompt, 31}};
  for (bool more = true; more;) {
    std::vector<Piece> pieces;
    for (uint32_t s = 0; s < 3; ++s) {
      Feeding& f = feedings[s];
      const size_t n = std::min<size_t>(f.chunk, f.prompt.size() - f.at);
      if (n == 0) continue;
      pieces.push_back({s, f.prompt.subspan(f.at, n), static_cast<uint32_t>(f.prompt.size())});
    }
    if (pieces.empty()) break;
    const Rows rows = driver_->Step(pieces);
    const float* from = rows.values.data();
    for (const Piece& piece : pieces) {
      Feeding& f = feedings[piece.sequence];
      const size_t n = piece.tokens.size() * vocab_;
      f.rows.values.insert(f.rows.values.end(), from, from + n);
      f.at += static_cast<uint32_t>(piece.tokens.size());
      from += n;
    }
  }
  for (Feeding& f : feedings) f.rows.cols = vocab_;
  CheckLogits(feedings[1].rows, a);
  CheckLogits(feedings[2].rows, b);
}

TEST_P(Goldens, HiddenStates) {
  if (!golden_.contains("hidden_file")) GTEST_SKIP() << "this golden has no hidden states";
  const std::vector<uint32_t> shape = golden_.at("hidden_shape");
  const Rows hidden = ReadRows(GetParam().dir / golden_.at("hidden_file").get<std::string>(),
                               shape[0] * shape[1], shape[2]);
  uint32_t seen = 0;
  Taps taps;
  taps.hidden = [&](uint32_t stage, Tensor values) {
    ASSERT_EQ(values.rows, shape[1]);
    ASSERT_EQ(values.cols, shape[2]);
    ASSERT_EQ(stage, seen++);
    EXPECT_LE(RelativeL2(values.data, hidden.row(stage * shape[1]), size_t{shape[1]} * shape[2]),
              kTolerance)
        << "stage " << stage;
  };
  driver_->Feed(0, Read(false).prompt, 0, &taps);
  EXPECT_EQ(seen, shape[0]);
}

TEST_P(Goldens, RouterChoices) {
  if (!golden_.contains("router")) GTEST_SKIP() << "this golden has no router choices";
  const Json& router = golden_.at("router");
  const uint32_t first = router.at("first_moe_layer");
  const auto experts = router.at("experts_last_token").get<std::vector<std::vector<int32_t>>>();
  const auto weights = router.at("weights_last_token").get<std::vector<std::vector<float>>>();
  size_t seen = 0;
  Taps taps;
  taps.routing = [&](uint32_t layer, uint32_t n_tokens, const Routing& routing) {
    ASSERT_LT(layer - first, experts.size());
    ++seen;
    // The fixture lists by final weight, the op by what it chose by: the same but for the bias.
    std::map<int32_t, float> got, expected;
    for (uint32_t k = 0; k < routing.n_used; ++k) {
      const size_t at = size_t{n_tokens - 1} * routing.n_used + k;
      got[routing.experts[at]] = routing.weights[at];
      expected[experts[layer - first].at(k)] = weights[layer - first].at(k);
    }
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [expert, weight] : expected) {
      ASSERT_TRUE(got.count(expert)) << "expert " << expert << " of layer " << layer;
      EXPECT_NEAR(got[expert], weight, 1e-5 * std::abs(weight));
    }
  };
  driver_->Feed(0, Read(false).prompt, 0, &taps);
  EXPECT_EQ(seen, experts.size());
}

INSTANTIATE_TEST_SUITE_P(All, Goldens, ::testing::ValuesIn(AllCases()),
                         [](const auto& test) { return test.param.Name(); });

// The lists above are empty when the models are missing: that must not look like success.
TEST(GoldenFiles, AllModelsArePresent) {
  EXPECT_EQ(GoldenNames(ModelsDir()).size(), 16u);
  const std::filesystem::path generated = SourceDir() / "tests" / "data" / "generated";
  const auto holding = [&generated](const char* file) {
    const std::vector<std::string> names = GoldenNames(generated);
    return std::count_if(names.begin(), names.end(), [&](const std::string& name) {
      return std::filesystem::exists(generated / name / file);
    });
  };
  EXPECT_EQ(holding("config.json"), 9);
  EXPECT_EQ(holding("model.gguf"), 8);
}

}  // namespace
}  // namespace hadal::testing
