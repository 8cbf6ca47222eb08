// The reference against values worked out by hand; whole models are held to outside goldens in
// tests/.
#include "backend/ref/ref_backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/error.h"

namespace hadal {
namespace {

std::unique_ptr<Weight> Upload(Backend& backend, std::vector<uint64_t> shape,
                               const std::vector<float>& values,
                               WeightPolicy policy = WeightPolicy::kF32) {
  TensorView view;
  view.name = "test";
  view.dtype = DType::kF32;
  view.shape = std::move(shape);
  view.data = std::as_bytes(std::span(values));
  EXPECT_EQ(backend.WeightBytes(view, policy), values.size() * sizeof(float));
  return backend.Upload(view, policy);
}

// Routes one token and returns (experts, weights).
std::pair<std::vector<int32_t>, std::vector<float>> Route(const MoeSpec& moe,
                                                          std::vector<float> logits,
                                                          const std::vector<float>& bias = {}) {
  RefBackend backend;
  ModelSpec spec;
  spec.moe = moe;
  backend.Reserve(spec, {});
  std::vector<int32_t> experts(moe.n_used);
  std::vector<float> weights(moe.n_used);
  const std::unique_ptr<Weight> choice_bias =
      bias.empty() ? nullptr : Upload(backend, {bias.size()}, bias);
  backend.MoeRoute(Tensor(logits.data(), 1, moe.n_experts), moe, choice_bias.get(),
                   {experts.data(), weights.data(), moe.n_used});
  return {experts, weights};
}

MoeSpec Experts(uint32_t n, uint32_t used) {
  MoeSpec moe;
  moe.n_experts = n;
  moe.n_used = used;
  return moe;
}

TEST(RefBackend, EqualScoresGoToTheLowerExpert) {
  const auto [experts, weights] = Route(Experts(4, 2), {1, 2, 2, 2});
  EXPECT_EQ(experts, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(weights[0], weights[1]);
}

TEST(RefBackend, SoftmaxWeightsAreScaledEvenWithoutNormalising) {
  MoeSpec moe = Experts(2, 1);
  moe.weight_scale = 4;
  EXPECT_FLOAT_EQ(Route(moe, {0, std::log(3.0f)}).second[0], 3.0f);
  moe.normalize = true;
  EXPECT_FLOAT_EQ(Route(moe, {0, std::log(3.0f)}).second[0], 4.0f);
}

TEST(RefBackend, BiasChoosesButDoesNotWeigh) {
  MoeSpec moe = Experts(3, 2);
  moe.scoring = MoeScoring::kSigmoid;
  moe.choice_bias = moe.normalize = true;
  // Scores 1/2, 3/4, 1/4; with the bias 1/2, 3/4, 5/4.
  const float ln3 = std::log(3.0f);
  const auto [experts, weights] = Route(moe, {0, ln3, -ln3}, {0, 0, 1});
  EXPECT_EQ(experts, (std::vector<int32_t>{2, 1}));
  EXPECT_FLOAT_EQ(weights[0], 0.25f);
  EXPECT_FLOAT_EQ(weights[1], 0.75f);
}

TEST(RefBackend, GroupsAreRankedByTheirBestOrByTheirTwoBest) {
  MoeSpec moe = Experts(6, 2);
  moe.n_groups = 2;
  moe.scoring = MoeScoring::kSigmoid;
  const std::vector<float> logits = {3, -3, -3, 2, 2, -3};
  moe.group_score = MoeGroupScore::kMax;
  EXPECT_EQ(Route(moe, logits).first, (std::vector<int32_t>{0, 1}));
  moe.group_score = MoeGroupScore::kTopTwoSum;
  EXPECT_EQ(Route(moe, logits).first, (std::vector<int32_t>{3, 4}));
}

TEST(RefBackend, NonFiniteLogitsStillNameDifferentExperts) {
  const float nan = std::nanf("");
  const auto [experts, weights] = Route(Experts(3, 2), {nan, nan, nan});
  EXPECT_NE(experts[0], experts[1]);
}

TEST(RefBackend, NormAddsTheResidualFirst) {
  RefBackend backend;
  const std::unique_ptr<Weight> weight = Upload(backend, {2}, {1, 10});
  std::vector<float> x = {1, 2}, add = {2, 2}, out(2);
  backend.RmsNorm(Tensor(x.data(), 1, 2), Tensor(add.data(), 1, 2), *weight, 0,
                  Tensor(out.data(), 1, 2));
  EXPECT_EQ(x, (std::vector<float>{3, 4}));
  const float rms = std::sqrt(12.5f);
  EXPECT_FLOAT_EQ(out[0], 3 / rms);
  EXPECT_FLOAT_EQ(out[1], 40 / rms);
}

TEST(RefBackend, PoliciesRoundWeights) {
  RefBackend backend;
  std::vector<float> row(40);
  std::iota(row.begin(), row.end(), -20.03f);
  const auto at = [&](WeightPolicy policy) {
    return AsRef(*Upload(backend, {1, 40}, row, policy)).row(0)[39];
  };
  EXPECT_EQ(at(WeightPolicy::kF32), row[39]);
  EXPECT_EQ(at(WeightPolicy::kBf16), 19.0f);
  EXPECT_NEAR(at(WeightPolicy::kQ8), row[39], 19.0 / 127);
  EXPECT_NEAR(at(WeightPolicy::kQ4), row[39], 19.0 / 7);
  EXPECT_NE(at(WeightPolicy::kQ4), at(WeightPolicy::kQ8));
}

TEST(RefBackend, ImpossibleAllocationsAreErrors) {
  RefBackend backend;
  EXPECT_THROW(backend.Allocate(uint64_t{1} << 62), Error);
  EXPECT_EQ(backend.Allocate(0).data(), nullptr);
}

}  // namespace
}  // namespace hadal
