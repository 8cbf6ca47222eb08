#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "sampling/logprobs.h"

namespace hadal {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

SamplingParams ParamsOf(const Json& json) {
  SamplingParams params;
  params.temperature = json.value("temperature", params.temperature);
  params.top_k = json.value("top_k", params.top_k);
  params.top_p = json.value("top_p", params.top_p);
  params.min_p = json.value("min_p", params.min_p);
  params.typical_p = json.value("typical_p", params.typical_p);
  params.repetition_penalty = json.value("repetition_penalty", params.repetition_penalty);
  params.presence_penalty = json.value("presence_penalty", params.presence_penalty);
  params.frequency_penalty = json.value("frequency_penalty", params.frequency_penalty);
  params.dry.multiplier = json.value("dry_multiplier", params.dry.multiplier);
  params.dry.base = json.value("dry_base", params.dry.base);
  params.dry.allowed_length = json.value("dry_allowed_length", params.dry.allowed_length);
  params.dry.range = json.value("dry_range", params.dry.range);
  params.dry.breakers = json.value("dry_breakers", params.dry.breakers);
  const Json biases = json.value("logit_bias", Json::object());
  for (const auto& [token, bias] : biases.items()) {
    params.logit_bias.emplace_back(std::stoi(token), bias.get<float>());
  }
  return params;
}

class SamplerGolden : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = HADAL_SOURCE_DIR "/tests/data/sampling/sampling.json";
    cases_ = ParseJson(ReadTextFile(path), path);
    ASSERT_GT(cases_.size(), 20u);
  }
  Json cases_;
};

// The draw is the inverse of the cumulated distribution, so the distribution that the golden
// states fixes every token.
TEST_F(SamplerGolden, DrawsFromTheStatedDistribution) {
  for (const Json& c : cases_) {
    SCOPED_TRACE(c["params"].dump());
    const auto logits = c["logits"].get<std::vector<float>>();
    const auto probabilities = c["probabilities"].get<std::vector<double>>();
    const auto prompt = c["prompt"].get<std::vector<int32_t>>();
    const auto generated = c["generated"].get<std::vector<int32_t>>();
    const auto banned = c["params"].value("banned", std::vector<int32_t>{});
    SamplingParams params = ParamsOf(c["params"]);
    Sampler sampler(static_cast<uint32_t>(logits.size()));
    SampleContext context{prompt, generated, banned, {.seed = 99}};
    for (uint32_t position = 0; position < 3000; ++position) {
      context.random.position = position;
      const double u = Uniform(context.random);
      double sum = 0;
      int32_t expected = -1;
      for (size_t id = 0; id < probabilities.size() && expected < 0; ++id) {
        sum += probabilities[id];
        if (sum > u) expected = static_cast<int32_t>(id);
      }
      const int32_t token = sampler.Sample(logits, params, context);
      if (std::abs(sum - u) < 1e-9) continue;  // rounding may decide
      ASSERT_EQ(token, expected) << "position " << position;
    }
    params.temperature = 0;
    EXPECT_EQ(sampler.Sample(logits, params, context), c["greedy"].get<int32_t>());
  }
}

TEST_F(SamplerGolden, LogprobsAreTheModelsOwn) {
  for (const Json& c : cases_) {
    const auto logits = c["logits"].get<std::vector<float>>();
    const auto expected = c["logprobs"].get<std::vector<double>>();
    std::vector<int32_t> order(logits.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return expected[static_cast<size_t>(a)] > expected[static_cast<size_t>(b)];
    });
    for (const uint32_t rank : {0u, 1u, 17u, 47u}) {
      const int32_t token = order[rank];
      const TokenLogprobs got = ComputeLogprobs(logits, token, 5);
      EXPECT_EQ(got.rank, rank + 1);
      EXPECT_NEAR(got.chosen.logprob, expected[static_cast<size_t>(token)], 1e-12);
      ASSERT_EQ(got.top.size(), 5u);
      for (size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(got.top[i].token, order[i]);
        EXPECT_NEAR(got.top[i].logprob, expected[static_cast<size_t>(order[i])], 1e-12);
      }
    }
  }
}

TEST(Sampler, TiesGoToTheLowestId) {
  Sampler sampler(6);
  SamplingParams greedy;
  greedy.temperature = 0;
  const std::vector<float> logits = {0, 3, 1, 3, 3, 2};
  EXPECT_EQ(sampler.Sample(logits, greedy, {}), 1);
  EXPECT_EQ(ComputeLogprobs(logits, 3, 0).rank, 2u);
  SamplingParams params;
  params.top_k = 2;
  for (uint32_t position = 0; position < 100; ++position) {
    const int32_t token = sampler.Sample(logits, params, {.random = {.position = position}});
    EXPECT_TRUE(token == 1 || token == 3) << token;
  }
}

TEST(Sampler, UnusableLogitsAreAnErrorAndNeverAToken) {
  Sampler sampler(4);
  for (const float temperature : {0.0f, 1.0f}) {
    SamplingParams params;
    params.temperature = temperature;
    for (const auto& logits : std::vector<std::vector<float>>{
             {1, std::nanf(""), 2, 3}, {1, kInf, 2, 3}, {-kInf, -kInf, -kInf, -kInf}}) {
      try {
        sampler.Sample(logits, params, {});
        ADD_FAILURE() << "sampled from unusable logits";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kNumeric);
      }
    }
    const std::vector<float> one = {-kInf, -kInf, 0.5f, -kInf};
    EXPECT_EQ(sampler.Sample(one, params, {}), 2);
    const std::vector<int32_t> banned = {2};
    EXPECT_THROW(sampler.Sample(one, params, {.banned = banned}), Error);
  }
}

TEST(Sampler, KeepsNothingBetweenCalls) {
  constexpr uint32_t kVocab = 300;
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(kVocab);
  for (float& logit : logits) logit = normal(random);
  std::vector<int32_t> text(80);
  for (int32_t& token : text) token = static_cast<int32_t>(random() % 12);
  SamplingParams params;
  params.repetition_penalty = 1.4f;
  params.frequency_penalty = 0.3f;
  params.dry = {
      .multiplier = 1.0f, .base = 1.75f, .allowed_length = 1, .range = 0, .breakers = {4}};
  params.top_p = 0.9f;
  Sampler used(kVocab);
  for (uint32_t position = 0; position < 80; ++position) {
    const std::span<const int32_t> all(text);
    const SampleContext context{all.first(position / 2),
                                all.subspan(position / 2, position % 40),
                                {},
                                {.seed = 5, .position = position}};
    Sampler fresh(kVocab);
    ASSERT_EQ(used.Sample(logits, params, context), fresh.Sample(logits, params, context));
  }
}

// Wide distributions take the slow way through the filters; the result must not change with it.
TEST(Sampler, TopPOverAFlatVocabularyKeepsItsShare) {
  constexpr uint32_t kVocab = 5000;
  const std::vector<float> logits(kVocab, 1.0f);
  SamplingParams params;
  params.top_p = 0.5f;
  Sampler sampler(kVocab);
  int32_t largest = 0;
  for (uint32_t position = 0; position < 500; ++position) {
    largest = std::max(largest, sampler.Sample(logits, params, {.random = {.position = position}}));
  }
  EXPECT_LT(largest, 2501);
  EXPECT_GT(largest, 2300);
}

// Weights from 1 down to 2e-9, in id order: how far into the tail the share reaches is known.
TEST(Sampler, TopPReachesAsFarIntoTheTailAsItMust) {
  constexpr uint32_t kVocab = 4000;
  std::vector<float> logits(kVocab);
  std::vector<double> weights(kVocab);
  double total = 0;
  for (uint32_t i = 0; i < kVocab; ++i) {
    logits[i] = -0.005f * static_cast<float>(i);
    weights[i] = std::exp(static_cast<double>(logits[i]));
    total += weights[i];
  }
  Sampler sampler(kVocab);
  for (const float top_p : {0.5f, 0.98f, 0.9999f, 0.999999f}) {
    double kept = 0;
    for (uint32_t i = 0; kept < top_p * total; ++i) kept += weights[i];
    SamplingParams params;
    params.top_p = top_p;
    for (uint32_t position = 0; position < 300; ++position) {
      const SampleContext context{.random = {.seed = 7, .position = position}};
      const double target = Uniform(context.random) * kept;
      int32_t expected = 0;
      for (double sum = weights[0]; sum <= target; sum += weights[static_cast<size_t>(expected)]) {
        ++expected;
      }
      ASSERT_EQ(sampler.Sample(logits, params, context), expected) << top_p;
    }
  }
}

TEST(Sampler, LongRepetitionsDoNotOverflow) {
  Sampler sampler(4);
  SamplingParams params;
  params.temperature = 0;
  params.dry = {.multiplier = 5, .base = 8, .allowed_length = 1, .range = 0, .breakers = {}};
  const std::vector<int32_t> text(5000, 2);
  const std::vector<float> logits = {0, 0, 9, 0};
  EXPECT_EQ(sampler.Sample(logits, params, {.prompt = text}), 0);
}

}  // namespace
}  // namespace hadal
