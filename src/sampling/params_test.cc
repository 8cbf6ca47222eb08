#include "sampling/params.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "base/error.h"

namespace hadal {
namespace {

TEST(SamplingParams, DefaultsAndGreedyAreValid) {
  SamplingParams params;
  EXPECT_NO_THROW(Validate(params, 10));
  params.temperature = 0;
  EXPECT_NO_THROW(Validate(params, 10));
}

TEST(SamplingParams, EveryRefusalNamesTheField) {
  struct Case {
    std::string field;
    std::function<void(SamplingParams&)> spoil;
  };
  const float nan = std::nanf("");
  const std::vector<Case> cases = {
      {"temperature", [](auto& p) { p.temperature = -0.1f; }},
      {"temperature", [=](auto& p) { p.temperature = nan; }},
      {"top_k", [](auto& p) { p.top_k = -1; }},
      {"top_p", [](auto& p) { p.top_p = 0; }},
      {"top_p", [](auto& p) { p.top_p = 1.01f; }},
      {"top_p", [=](auto& p) { p.top_p = nan; }},
      {"min_p", [](auto& p) { p.min_p = 1.5f; }},
      {"typical_p", [](auto& p) { p.typical_p = 0; }},
      {"repetition_penalty", [](auto& p) { p.repetition_penalty = 0; }},
      {"presence_penalty", [](auto& p) { p.presence_penalty = 2.5f; }},
      {"frequency_penalty", [](auto& p) { p.frequency_penalty = -3; }},
      {"dry_multiplier", [](auto& p) { p.dry.multiplier = -1; }},
      {"dry_base", [](auto& p) { p.dry.base = 0.5f; }},
      {"dry_allowed_length", [](auto& p) { p.dry.allowed_length = 0; }},
      {"dry_sequence_breakers", [](auto& p) { p.dry.breakers = {10}; }},
      {"dry_sequence_breakers",
       [](auto& p) {
         p.dry.breakers = {3, 1};
       }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{-1, 1.0f}};
       }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{1, 101.0f}};
       }},
      {"logit_bias",
       [](auto& p) {
         p.logit_bias = {{1, 1.0f}, {1, 2.0f}};
       }},
      {"logprobs", [](auto& p) { p.logprobs = 65; }},
  };
  for (const Case& c : cases) {
    SamplingParams params;
    c.spoil(params);
    try {
      Validate(params, 10);
      ADD_FAILURE() << c.field << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      EXPECT_EQ(error.message().rfind(c.field, 0), 0u) << error.message();
    }
  }
}

}  // namespace
}  // namespace hadal
