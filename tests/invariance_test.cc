// A request's logits are the same bytes whether it runs alone or in a crowd, whole or in chunks, on
// one thread or two; and the work of a step is what its tokens cost, no more.
#include <gtest/gtest.h>

#include <cstring>

#include "devices.h"
#include "golden_files.h"
#include "step_driver.h"

namespace hadal::testing {
namespace {

constexpr uint32_t kOthers = 16;

DriverOptions Crowd(DType kv_dtype) {
  DriverOptions options;
  options.kv_dtype = kv_dtype;
  options.block_size = 32;
  options.limits = {
      .max_tokens = 768, .max_sequences = kOthers + 1, .max_logit_rows = 768, .max_context = 256};
  return options;
}

// Deterministic and different for every stream.
std::vector<int32_t> SomeTokens(uint32_t n, uint32_t vocab, uint32_t stream) {
  std::vector<int32_t> tokens(n);
  uint32_t state = stream * 2654435761u + 12345;
  for (int32_t& token : tokens) {
    state = state * 1664525 + 1013904223;
    token = static_cast<int32_t>((state >> 8) % vocab);
  }
  return tokens;
}

// Feeds `prompt` as the sixth of 17 sequences that have all lengths and chunk sizes.
Rows FeedAmongOthers(StepDriver& driver, std::span<const int32_t> prompt, uint32_t chunk) {
  const uint32_t vocab = driver.model().spec().vocab;
  std::vector<std::vector<int32_t>> prompts;
  for (uint32_t s = 0; s <= kOthers; ++s) prompts.push_back(SomeTokens(3 + 13 * s, vocab, s));
  prompts[5].assign(prompt.begin(), prompt.end());
  std::vector<size_t> at(prompts.size(), 0);
  Rows mine{static_cast<uint32_t>(prompt.size()), vocab, {}};
  while (true) {
    std::vector<Piece> pieces;
    size_t skip = 0;
    size_t rows = 0;
    for (uint32_t s = 0; s < prompts.size(); ++s) {
      const std::span<const int32_t> all(prompts[s]);
      const size_t n = std::min<size_t>(s == 5 ? chunk : 1 + 5 * s % 37, all.size() - at[s]);
      if (n == 0) continue;
      if (s < 5) skip += n;
      if (s == 5) rows = n;
      pieces.push_back({s, all.subspan(at[s], n), static_cast<uint32_t>(all.size())});
      at[s] += n;
    }
    if (pieces.empty()) break;
    const Rows logits = driver.Step(pieces);
    const float* from = logits.row(static_cast<uint32_t>(skip));
    mine.values.insert(mine.values.end(), from, from + rows * vocab);
  }
  for (uint32_t s = 0; s < prompts.size(); ++s) driver.Forget(s);
  return mine;
}

void ExpectSameBytes(const Rows& got, const Rows& expected) {
  ASSERT_EQ(got.values.size(), expected.values.size());
  for (uint32_t r = 0; r < expected.n; ++r) {
    ASSERT_EQ(std::memcmp(got.row(r), expected.row(r), expected.cols * sizeof(float)), 0)
        << "first different row: " << r;
  }
}

struct InvarianceCase {
  std::string model;
  std::string weights;
  WeightPolicy policy;
  DType kv_dtype;
  Device device;  // its threads are not used

  std::string Name() const { return model + "_" + weights + "_" + std::string(IsaName()); }
  std::string_view IsaName() const { return hadal::Name(*device.isa); }
};

std::vector<InvarianceCase> AllCases() {
  std::vector<InvarianceCase> cases;
  for (const Device& device : CpuDevices({1})) {
    for (const char* model :
         {"deepseek_v3", "deepseek_v3_fp8_mtp", "llama_rope_dynamic", "qwen2_swa_mixed", "qwen3"}) {
      cases.push_back({model, "as_stored", WeightPolicy::kAsStored, DType::kBF16, device});
    }
    for (const char* model : {"deepseek_v2_lite", "qwen2_swa_mixed"}) {
      cases.push_back({model, "f32", WeightPolicy::kF32, DType::kF32, device});
      cases.push_back({model, "q8", WeightPolicy::kQ8, DType::kBF16, device});
      cases.push_back({model, "q4", WeightPolicy::kQ4, DType::kBF16, device});
      cases.push_back({model, "kv_int8", WeightPolicy::kAsStored, DType::kI8, device});
      cases.push_back({model, "kv_fp8", WeightPolicy::kAsStored, DType::kF8E4M3, device});
    }
  }
  return cases;
}

class Invariance : public ::testing::TestWithParam<InvarianceCase> {};

TEST_P(Invariance, SameBytesHoweverItIsFed) {
  const InvarianceCase& test = GetParam();
  Rows alone;
  for (const int threads : {1, 2}) {
    SCOPED_TRACE("threads " + std::to_string(threads));
    const std::unique_ptr<Backend> backend = Device{test.device.isa, threads}.Make();
    const Checkpoint checkpoint = Checkpoint::Open(ModelsDir() / test.model);
    Model model = Model::Load(checkpoint, *backend, {.policy = test.policy, .progress = {}});
    StepDriver driver(model, Crowd(test.kv_dtype));
    const std::vector<int32_t> prompt = SomeTokens(200, model.spec().vocab, 99);
    // Steps of one token are many, and threads meet often in each: one thread tries more.
    const std::vector<uint32_t> chunks =
        threads == 1 ? std::vector<uint32_t>{0, 1, 7, 15, 16, 17} : std::vector<uint32_t>{0, 17};
    for (const uint32_t chunk : chunks) {
      SCOPED_TRACE("alone, chunks of " + std::to_string(chunk));
      const Rows rows = driver.Feed(0, prompt, chunk);
      driver.Forget(0);
      if (alone.values.empty()) alone = rows;
      ExpectSameBytes(rows, alone);
    }
    for (const uint32_t chunk : {23, 200}) {
      SCOPED_TRACE("among others, chunks of " + std::to_string(chunk));
      ExpectSameBytes(FeedAmongOthers(driver, prompt, chunk), alone);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Invariance, ::testing::ValuesIn(AllCases()),
                         [](const auto& test) { return test.param.Name(); });

// --- work ---

std::vector<Device> WorkDevices() {
  std::vector<Device> devices = CpuDevices({1});
  devices.push_back({std::nullopt, 1});
  return devices;
}

class Work : public ::testing::TestWithParam<Device> {
 protected:
  void Open(const char* name) {
    const Checkpoint checkpoint = Checkpoint::Open(ModelsDir() / name);
    driver_.reset();
    model_.reset();
    backend_ = GetParam().Make();
    model_.emplace(Model::Load(checkpoint, *backend_, {}));
    driver_.emplace(*model_, Crowd(DType::kBF16));
  }

  // Counters that `prompts`, fed whole in one step, cost.
  OpCounters Cost(const std::vector<std::vector<int32_t>>& prompts) {
    std::vector<Piece> pieces;
    for (uint32_t s = 0; s < prompts.size(); ++s) {
      pieces.push_back({s, prompts[s], static_cast<uint32_t>(prompts[s].size())});
    }
    const OpCounters before = backend_->counters();
    driver_->Step(pieces);
    const OpCounters after = backend_->counters();
    for (uint32_t s = 0; s < prompts.size(); ++s) driver_->Forget(s);
    return {after.ops - before.ops, after.attention_tiles - before.attention_tiles,
            after.barriers - before.barriers};
  }

  std::vector<int32_t> Prompt(uint32_t n) { return SomeTokens(n, model_->spec().vocab, n); }

  // (row, tile) pairs that causality and the windows leave, over all layers and KV heads.
  uint64_t VisibleTiles(uint32_t length) {
    uint64_t tiles = 0;
    for (const LayerSpec& layer : model_->spec().layers) {
      for (uint32_t p = 0; p < length; ++p) {
        const uint32_t first = layer.window != 0 && p + 1 > layer.window ? p + 1 - layer.window : 0;
        tiles += p / kTileTokens - first / kTileTokens + 1;
      }
    }
    return tiles * driver_->kv().layout.n_kv_heads;
  }
  uint64_t Heads() { return uint64_t{model_->spec().n_layers} * driver_->kv().layout.n_kv_heads; }

  std::unique_ptr<Backend> backend_;
  std::optional<Model> model_;
  std::optional<StepDriver> driver_;
};

// One long prompt among short ones: padding or masks would charge all for the longest.
TEST_P(Work, AttentionVisitsWhatIsVisibleAndNothingElse) {
  for (const char* name : {"llama_gqa", "mistral_swa", "qwen2_swa_mixed", "deepseek_v3"}) {
    SCOPED_TRACE(name);
    Open(name);
    uint64_t sum = 0;
    std::vector<std::vector<int32_t>> prompts;
    for (const uint32_t length : {200, 1, 16, 17, 5, 64}) {
      prompts.push_back(Prompt(length));
      const uint64_t tiles = Cost({prompts.back()}).attention_tiles;
      EXPECT_GE(tiles, VisibleTiles(length)) << length;
      // Rows are taken a few at a time; a row may then meet its neighbours' tiles too.
      const uint64_t neighbours = GetParam().isa ? 2 : 0;
      EXPECT_LE(tiles, VisibleTiles(length) + neighbours * Heads() * length) << length;
      sum += tiles;
    }
    EXPECT_EQ(Cost(prompts).attention_tiles, sum);
  }
}

TEST_P(Work, OpsPerStepDoNotDependOnTheBatch) {
  // Embedding, final norm, gather, head; and per layer
  //   llama: 2 norms, qkv, rope, attention, output; gate and up, glu, down             = 9
  //   V3:    2 norms, q_a and kv_a, their norms, q_b, rope, attention, output = 9, and
  //          gate and up, glu, down = 3, or also router, route, experts, sum = 7
  const std::pair<const char*, uint64_t> expected[] = {{"llama_gqa", 4 + 4 * 9},
                                                       {"deepseek_v3", 4 + (9 + 3) + 2 * (9 + 7)}};
  for (const auto& [name, ops] : expected) {
    SCOPED_TRACE(name);
    Open(name);
    EXPECT_EQ(Cost({Prompt(1)}).ops, ops);
    EXPECT_EQ(Cost({Prompt(100)}).ops, ops);
    EXPECT_EQ(Cost({Prompt(9), Prompt(30), Prompt(1), Prompt(2), Prompt(77)}).ops, ops);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Work, ::testing::ValuesIn(WorkDevices()),
                         [](const auto& test) { return test.param.Label(); });

}  // namespace
}  // namespace hadal::testing
