#include "backend/cpu/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "backend/cpu/attention_harness.h"
#include "base/json.h"
#include "tensor/byte_vector.h"

namespace hadal {
namespace {

// Largest relative error over the rows (a row: all heads of one token).
double WorstRow(const AttentionCase& shape, const std::vector<float>& got,
                const std::vector<float>& want) {
  const size_t cols = size_t{shape.heads} * shape.out_dim();
  double worst = 0;
  for (size_t i = 0; i < want.size(); i += cols) {
    worst = std::max(worst, RelativeError({got.begin() + i, got.begin() + i + cols},
                                          {want.begin() + i, want.begin() + i + cols}));
  }
  return worst;
}

// At levels with tiles, pairs of bf16 lose up to 2^-17 of queries and of weights.
double Tolerance(IsaLevel level) {
  return level < IsaLevel::kAvx512Amx ? 1e-5 : 2e-5;
}

// There the portable kernels take a hundred times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

std::string Describe(const AttentionCase& c, uint32_t tokens) {
  std::ostringstream text;
  text << (c.mla() ? "mla" : "gqa") << " heads " << c.heads << '/' << c.kv_heads << " dim "
       << c.q_dim() << " lora " << c.kv_lora << " window " << c.window << " block " << c.block_size
       << ' ' << Name(c.dtype) << " tokens " << tokens;
  return text.str();
}

AttentionCase Gqa(uint32_t heads, uint32_t kv_heads, uint32_t dim, uint32_t window,
                  uint32_t block_size) {
  AttentionCase c;
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.head_dim = dim;
  c.window = window;
  c.block_size = block_size;
  return c;
}

AttentionCase Mla(uint32_t heads, uint32_t kv_lora, uint32_t rope, uint32_t nope, uint32_t v,
                  uint32_t window = 0) {
  AttentionCase c;
  c.heads = heads;
  c.kv_lora = kv_lora;
  c.rope = rope;
  c.nope = nope;
  c.v_head_dim = v;
  c.window = window;
  return c;
}

struct Parity {
  AttentionCase shape;
  uint32_t tokens;
};
std::vector<Parity> ParityCases() {
  return {
      {Gqa(1, 1, 6, 0, 16), 1},         {Gqa(2, 1, 10, 0, 16), 40},
      {Gqa(3, 3, 12, 7, 16), 70},       {Gqa(8, 1, 16, 0, 32), 300},
      {Gqa(14, 2, 64, 0, 48), 260},     {Gqa(5, 1, 80, 64, 32), 300},
      {Gqa(12, 2, 128, 0, 16), 150},    {Gqa(4, 2, 7, 1, 16), 50},
      {Gqa(6, 1, 24, 17, 48), 600},     {Gqa(4, 1, 32, 0, 16), 700},
      {Gqa(9, 3, 96, 33, 32), 90},      {Gqa(70, 1, 8, 0, 16), 33},
      {Mla(4, 16, 16, 8, 12), 130},     {Mla(3, 20, 6, 5, 7), 290},
      {Mla(5, 33, 8, 16, 12, 20), 100}, {Mla(16, 512, 64, 128, 128), 40},
      {Mla(130, 16, 4, 8, 4), 35},
  };
}

class AttentionTest : public testing::TestWithParam<IsaLevel> {};

TEST_P(AttentionTest, EqualsTheDefinition) {
  for (Parity parity : ParityCases()) {
    for (const auto& [name, dtype] : kKvTypes) {
      parity.shape.dtype = dtype;
      const std::vector<TestSequence> one = {TestSequence(parity.shape, parity.tokens, 5)};
      const std::vector<float> want = PlainAttention(parity.shape, one[0]);
      const AttentionRun run =
          RunCpuAttention(parity.shape, one, Chunked(parity.tokens, 100), {GetParam(), 2, 3});
      ASSERT_LT(WorstRow(parity.shape, run.out[0], want), Tolerance(GetParam()))
          << Describe(parity.shape, parity.tokens);
    }
  }
}

// One sequence alone and all at once, against every way of cutting, company, threads and pages.
void ExpectSameBits(AttentionCase shape, uint32_t tokens, IsaLevel level) {
  for (const auto& [name, dtype] : kKvTypes) {
    shape.dtype = dtype;
    std::vector<TestSequence> sequences = {TestSequence(shape, tokens, 5)};
    const std::vector<float> alone =
        RunCpuAttention(shape, sequences, Chunked(tokens, tokens), {level, 1, 1}).out[0];
    const auto expect_same = [&](const std::vector<StepPlan>& plan, const RunOptions& options,
                                 const char* what) {
      const std::vector<float> got = RunCpuAttention(shape, sequences, plan, options).out[0];
      ASSERT_EQ(std::memcmp(got.data(), alone.data(), alone.size() * sizeof(float)), 0)
          << what << ", " << Describe(shape, tokens) << ", threads " << options.threads;
    };
    for (const uint32_t chunk : {1u, 7u, 15u, 16u, 17u}) {
      expect_same(Chunked(tokens, chunk), {level, 1 + static_cast<int>(chunk % 3), chunk},
                  "in chunks");
    }
    expect_same(Chunked(tokens, tokens), {level, 2, 9}, "two threads");
    expect_same(Chunked(tokens, tokens), {level, 3, 8}, "three threads");

    // Among 16 others of all lengths; sequence 0 enters late and by uneven chunks.
    std::vector<StepPlan> plan(1);
    for (uint32_t i = 1; i <= 16; ++i) {
      sequences.emplace_back(shape, 4 + 23 * i, 100 + i);
      plan[0].push_back({i, 3 + 20 * i});
    }
    uint32_t done = 0;
    for (uint32_t step = 0; done < tokens; ++step) {
      StepPlan next;
      if (step == 0) {
        for (uint32_t i = 1; i <= 8; ++i) next.push_back({i, 1 + i});
      }
      const uint32_t rows = std::min(5 + 31 * step, tokens - done);
      next.push_back({0, rows});
      done += rows;
      if (step == 1) {
        for (uint32_t i = 9; i <= 16; ++i) next.push_back({i, 1 + 3 * i});
      }
      plan.push_back(next);
    }
    for (const int threads : {1, 2, 3}) expect_same(plan, {level, threads, 21}, "among others");
  }
}

TEST_P(AttentionTest, BitsDoNotDependOnTheBatch) {
  ExpectSameBits(Gqa(6, 2, 16, 0, 16), 550, GetParam());
  ExpectSameBits(Gqa(7, 1, 12, 40, 32), 330, GetParam());
  ExpectSameBits(Gqa(2, 2, 80, 0, 48), 270, GetParam());
  ExpectSameBits(Gqa(6, 2, 64, 0, 16), kSanitized ? 270 : 550, GetParam());
  ExpectSameBits(Gqa(5, 1, 96, 40, 32), kSanitized ? 120 : 330, GetParam());
}

TEST_P(AttentionTest, BitsDoNotDependOnTheBatchMla) {
  ExpectSameBits(Mla(4, 16, 16, 8, 12), kSanitized ? 270 : 540, GetParam());
  ExpectSameBits(Mla(70, 16, 8, 8, 4, 100), kSanitized ? 120 : 280, GetParam());
}

// A long decode on two threads goes by waves (of 8 splits here); the state of an item must survive
// from one to the next.
TEST_P(AttentionTest, WavesOfPartialResults) {
  if (kSanitized && GetParam() == IsaLevel::kPortable) GTEST_SKIP() << "takes minutes";
  const AttentionCase shape = Mla(64, 16, 4, 8, 4);
  const uint32_t tokens = 256 * 9 + 3;
  const std::vector<TestSequence> one = {TestSequence(shape, tokens, 5)};
  const std::vector<StepPlan> plan = {{{0, 1500}}, {{0, tokens - 1503}}, {{0, 1}}, {{0, 2}}};
  const std::vector<float> single = RunCpuAttention(shape, one, plan, {GetParam(), 1, 1}).out[0];
  const AttentionRun waves = RunCpuAttention(shape, one, plan, {GetParam(), 2, 2});
  EXPECT_EQ(waves.out[0], single);
  EXPECT_GE(waves.jobs, 8u);
}

TEST_P(AttentionTest, VisitsNoTileInVain) {
  AttentionCase shape = Gqa(4, 2, 16, 0, 16);
  std::vector<TestSequence> sequences;
  StepPlan plan;
  uint64_t visible = 0;
  for (const uint32_t tokens : {1u, 16u, 17u, 300u, 600u}) {
    plan.push_back({static_cast<uint32_t>(sequences.size()), tokens});
    sequences.emplace_back(shape, tokens, tokens);
    for (uint32_t i = 0; i < tokens; ++i) visible += (i / 16 + 1) * shape.kv_heads;
  }
  EXPECT_EQ(RunCpuAttention(shape, sequences, {plan}, {GetParam(), 2, 1}).tiles, visible);

  // With a window the first tile of a block may be in vain for its later rows.
  shape.window = 50;
  visible = 0;
  uint64_t rows = 0;
  for (const TestSequence& s : sequences) {
    for (uint32_t i = 0; i < s.tokens; ++i) {
      visible += (i / 16 - (i < 50 ? 0 : i - 49) / 16 + 1) * shape.kv_heads;
    }
    rows += s.tokens * shape.kv_heads;
  }
  const uint64_t tiles = RunCpuAttention(shape, sequences, {plan}, {GetParam(), 2, 1}).tiles;
  EXPECT_GE(tiles, visible);
  EXPECT_LE(tiles, visible + rows);
}

// Values are one-hot in the token's position, so the output shows what was seen.
TEST_P(AttentionTest, SeesWhatTheMaskFixturesSay) {
  std::ifstream file(std::string(HADAL_SOURCE_DIR) + "/tests/data/rope/masks.json");
  std::stringstream text;
  text << file.rdbuf();
  const Json cases = ParseJson(text.str(), "masks.json");
  ASSERT_GE(cases.size(), 9u);
  for (const Json& mask : cases) {
    AttentionCase shape = Gqa(1, 1, 32, 0, 16);
    if (!mask["sliding_window"].is_null()) shape.window = mask["sliding_window"];
    const uint32_t past = mask["past_len"];
    const uint32_t rows = mask["query_len"];
    std::vector<TestSequence> one = {TestSequence(shape, past + rows, 1)};
    for (uint32_t t = 0; t < past + rows; ++t) {
      for (uint32_t d = 0; d < 32; ++d) one[0].v[t * 32 + d] = t == d ? 1.0f : 0.0f;
    }
    std::vector<StepPlan> plan;
    if (past > 0) plan.push_back({{0, past}});
    plan.push_back({{0, rows}});
    const std::vector<float> out = RunCpuAttention(shape, one, plan, {GetParam(), 1, 1}).out[0];
    for (uint32_t i = 0; i < rows; ++i) {
      std::string seen;
      for (uint32_t t = 0; t < past + rows; ++t) {
        seen += out[(past + i) * 32 + t] > 0 ? '1' : '0';
      }
      EXPECT_EQ(seen, mask["rows"][i].get<std::string>());
    }
  }
}

// A watchdog looks for non-finite values: attention must not hide them.
TEST_P(AttentionTest, NanReachesTheOutput) {
  for (const auto& [name, dtype] : kKvTypes) {
    AttentionCase shape = Gqa(2, 1, 16, 0, 16);
    shape.dtype = dtype;
    const TestSequence healthy(shape, 40, 1);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      for (const bool in_key : {true, false}) {
        std::vector<TestSequence> one = {healthy};
        (in_key ? one[0].k : one[0].v)[20 * 16 + 3] = bad;
        const std::vector<float> out =
            RunCpuAttention(shape, one, Chunked(40, 40), {GetParam(), 1, 1}).out[0];
        for (uint32_t i = 0; i < 40; ++i) {
          const float* row = out.data() + i * 32;
          const bool finite = std::all_of(row, row + 32, [](float x) { return std::isfinite(x); });
          // Rows of the same tile that do not see a value meet it with weight 0, and 0 * NaN is
          // NaN.
          if (!in_key && i >= 16 && i < 20) continue;
          // An infinite key may lose against all others, as a score of -inf.
          if (i >= 20 && in_key && std::isinf(bad) && !IsByteVectorType(dtype)) continue;
          EXPECT_EQ(finite, i < 20)
              << name << (in_key ? " key " : " value ") << bad << " row " << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, AttentionTest, testing::ValuesIn(SupportedIsaLevels()),
                         [](const auto& level) { return std::string(Name(level.param)); });

}  // namespace
}  // namespace hadal
