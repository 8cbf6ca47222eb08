#include "spec/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/json.h"

namespace hadal {
namespace {

Json LoadCases() {
  const std::string path = std::string(HADAL_SOURCE_DIR) + "/tests/data/rope/inv_freq.json";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return ParseJson(text.str(), path);
}

RopeSpec SpecOf(const Json& entry) {
  const Json& p = entry.at("params");
  const std::string scheme = entry.at("scheme");
  RopeSpec spec;
  spec.dim = p.at("dim");
  spec.theta = p.at("base");
  spec.factor = p.value("factor", p.value("alpha", 1.0));
  spec.original_context = p.value("original_max_position_embeddings", uint64_t{0});
  spec.max_context = p.value("max_position_embeddings", uint64_t{0});
  spec.beta_fast = p.value("beta_fast", 32.0);
  spec.beta_slow = p.value("beta_slow", 1.0);
  spec.attention_factor = p.value("attention_factor", 0.0);
  spec.mscale = p.value("mscale", 0.0);
  spec.mscale_all_dim = p.value("mscale_all_dim", 0.0);
  spec.low_freq_factor = p.value("low_freq_factor", 1.0);
  spec.high_freq_factor = p.value("high_freq_factor", 4.0);
  spec.short_factors = p.value("short_factor", std::vector<double>{});
  spec.long_factors = p.value("long_factor", std::vector<double>{});
  const std::map<std::string, RopeScaling> kinds = {
      {"default", RopeScaling::kNone},
      {"linear", RopeScaling::kLinear},
      {"dynamic_ntk", RopeScaling::kDynamicNtk},
      {"ntk_aware_static", RopeScaling::kNtkAware},
      {"yarn", RopeScaling::kYarn},
      {"yarn_deepseek", RopeScaling::kYarnDeepSeek},
      {"llama3", RopeScaling::kLlama3},
      {"longrope", RopeScaling::kLongRope},
  };
  spec.scaling = kinds.at(scheme);
  return spec;
}

// cos and sin of the listed positions and frequency indices, and of the frequencies themselves.
void CheckEntry(const Json& entry, const RopeTable& table) {
  const uint64_t length = entry.at("params").value("seq_len", uint64_t{1});
  const std::vector<double> expected = entry.at("inv_freq");
  const std::vector<double> got = table.InverseFrequencies(length);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], 1e-10 * expected[i]) << "frequency " << i;
  }
  EXPECT_NEAR(table.attention_scaling(), entry.at("attention_scaling").get<double>(), 1e-10);

  std::vector<float> cos(got.size()), sin(got.size());
  const std::vector<size_t> indices = entry.at("cos_sin_indices");
  for (const Json& row : entry.at("cos_sin")) {
    const uint64_t position = row.at("pos");
    table.CosSin(position, length, cos, sin);
    for (size_t j = 0; j < indices.size(); ++j) {
      // The fixture has 12 digits; one f32 rounding on our side. No error that grows with position
      // but the fixture's own.
      const double tolerance = 1e-6 + 2e-9 * static_cast<double>(position) * expected[indices[j]];
      EXPECT_NEAR(cos[indices[j]], row.at("cos")[j].get<double>(), tolerance) << position;
      EXPECT_NEAR(sin[indices[j]], row.at("sin")[j].get<double>(), tolerance) << position;
    }
  }
}

TEST(RopeTable, MatchesEveryUnitValue) {
  const Json cases = LoadCases();
  ASSERT_EQ(cases.size(), 41u);
  for (const Json& entry : cases) {
    SCOPED_TRACE(entry.at("name").get<std::string>());
    CheckEntry(entry, RopeTable(SpecOf(entry)));
  }
}

TEST(RopeTable, DeepSeekCorrectsTheSoftmaxScale) {
  int seen = 0;
  for (const Json& entry : LoadCases()) {
    const RopeTable table(SpecOf(entry));
    if (!entry.contains("softmax_scale")) {
      EXPECT_EQ(table.softmax_correction(), 1.0);
      continue;
    }
    ++seen;
    const double plain = 1 / std::sqrt(entry.at("params").at("qk_head_dim").get<double>());
    EXPECT_NEAR(plain * table.softmax_correction(), entry.at("softmax_scale").get<double>(), 1e-10);
  }
  EXPECT_EQ(seen, 5);
}

TEST(RopeTable, PublishedDeepSeekFigures) {
  RopeSpec spec{.scaling = RopeScaling::kYarnDeepSeek, .dim = 64, .factor = 40};
  spec.original_context = 4096;
  spec.mscale = spec.mscale_all_dim = 0.707;
  EXPECT_NEAR(RopeTable(spec).softmax_correction(), 1.58963, 5e-6);
  EXPECT_EQ(RopeTable(spec).attention_scaling(), 1.0);
  spec.mscale = spec.mscale_all_dim = 1.0;
  EXPECT_NEAR(RopeTable(spec).softmax_correction(), 1.87385, 5e-6);
  EXPECT_EQ(RopeTable(spec).Describe(),
            "64 dimensions, first half paired with second half, base 10000, YaRN, factor 40 over "
            "4096 original tokens (to 163840); frequencies that turn more than 32 times in the "
            "original context stay, those below 1 turns are stretched; softmax scale times "
            "1.87385");
}

// GGUF stores Llama 3's scaling as divisors.
TEST(RopeTable, FrequencyFactorsEqualLlama3) {
  int seen = 0;
  for (const Json& entry : LoadCases()) {
    if (!entry.contains("gguf_rope_freqs")) continue;
    ++seen;
    RopeSpec spec;
    spec.dim = entry.at("params").at("dim");
    spec.theta = entry.at("params").at("base");
    spec.scaling = RopeScaling::kFrequencyFactors;
    spec.long_factors = entry.at("gguf_rope_freqs").get<std::vector<double>>();
    CheckEntry(entry, RopeTable(spec));
  }
  EXPECT_EQ(seen, 3);
}

TEST(RopeTable, OnlyTwoKindsDependOnTheLength) {
  for (const Json& entry : LoadCases()) {
    const std::string scheme = entry.at("scheme");
    EXPECT_EQ(RopeTable(SpecOf(entry)).length_dependent(),
              scheme == "dynamic_ntk" || scheme == "longrope");
  }
}

TEST(RopeTable, RefusesContradictions) {
  const auto message = [](const RopeSpec& spec) -> std::string {
    try {
      RopeTable table(spec);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBadFile);
      return error.message();
    }
    return "accepted";
  };
  const auto expect = [&](const RopeSpec& spec, const char* part) {
    EXPECT_NE(message(spec).find(part), std::string::npos) << message(spec);
  };
  const double nan = std::nan("");
  expect({.dim = 0}, "rotated dimensions");
  expect({.dim = 7}, "rotated dimensions");
  expect({.dim = 8, .theta = 0}, "rope_theta");
  expect({.dim = 8, .theta = nan}, "rope_theta");
  expect({.scaling = RopeScaling::kLinear, .dim = 8, .factor = 0.5}, "rope_scaling.factor");
  expect({.scaling = RopeScaling::kLinear, .dim = 8, .factor = nan}, "rope_scaling.factor");
  expect({.scaling = RopeScaling::kDynamicNtk, .dim = 8, .factor = 2}, "max_position_embeddings");
  expect({.scaling = RopeScaling::kNtkAware, .dim = 2, .factor = 2}, "rotated dimensions");
  expect({.scaling = RopeScaling::kYarn, .dim = 8, .factor = 4},
         "original_max_position_embeddings");
  expect({.scaling = RopeScaling::kYarnDeepSeek,
          .dim = 8,
          .factor = 4,
          .original_context = 64,
          .beta_fast = 1,
          .beta_slow = 2},
         "beta_slow");
  RopeSpec spec{.scaling = RopeScaling::kLlama3, .dim = 8, .factor = 8, .original_context = 64};
  spec.low_freq_factor = spec.high_freq_factor;
  expect(spec, "high_freq_factor");
  spec = {.scaling = RopeScaling::kLongRope, .dim = 8, .original_context = 64};
  spec.short_factors = {1, 1, 1, 1};
  spec.long_factors = {1, 1, 1};
  expect(spec, "long_factor");
  spec.long_factors = {1, 1, 1, 0};
  expect(spec, "long_factor");
  spec = {.scaling = RopeScaling::kFrequencyFactors, .dim = 8};
  expect(spec, "rope_freqs.weight");
}

}  // namespace
}  // namespace hadal
