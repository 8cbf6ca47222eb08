// What the parity test cannot ask of the reference: routing with broken numbers.
#include "backend/cpu/router.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace hadal {
namespace {

constexpr uint32_t kExperts = 16;
constexpr uint32_t kUsed = 4;

MoeSpec Spec(MoeScoring scoring, MoeGroupScore group_score) {
  MoeSpec moe;
  moe.n_experts = kExperts;
  moe.n_used = kUsed;
  moe.scoring = scoring;
  moe.group_score = group_score;
  moe.n_groups = 4;
  moe.n_groups_used = 2;
  moe.normalize = true;
  return moe;
}

// Broken logits must reach the watchdog, not crash on the way: four different experts, whatever
// the numbers.
TEST(Router, SurvivesNonFiniteNumbers) {
  ThreadPool pool(1);
  for (const MoeScoring scoring : {MoeScoring::kSigmoid, MoeScoring::kSoftmax}) {
    for (const MoeGroupScore group :
         {MoeGroupScore::kNone, MoeGroupScore::kMax, MoeGroupScore::kTopTwoSum}) {
      ModelSpec spec;
      spec.moe = Spec(scoring, group);
      CpuRouter router(&pool);
      router.Reserve(spec);
      for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
        for (const bool biased : {false, true}) {
          std::vector<float> logits(kExperts, biased ? 0.5f : bad);
          const std::vector<float> bias(kExperts, bad);
          std::vector<int32_t> experts(kUsed, -1);
          std::vector<float> weights(kUsed);
          router.Route(Tensor(logits.data(), 1, kExperts), *spec.moe,
                       biased ? bias.data() : nullptr, {experts.data(), weights.data(), kUsed});
          std::sort(experts.begin(), experts.end());
          EXPECT_TRUE(std::adjacent_find(experts.begin(), experts.end()) == experts.end());
          EXPECT_GE(experts.front(), 0);
          EXPECT_LT(experts.back(), static_cast<int32_t>(kExperts));
        }
      }
    }
  }
}

}  // namespace
}  // namespace hadal
