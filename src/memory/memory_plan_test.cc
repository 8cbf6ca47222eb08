#include "memory/memory_plan.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace hadal {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// DeepSeek-V2-Lite: 31,104 bytes of KV per token in 16 bits.
KvLayout V2Lite() {
  ModelSpec spec;
  spec.n_layers = 27;
  spec.layers.resize(27);
  spec.attention = {.kind = AttentionKind::kMla, .n_heads = 16, .kv_lora_rank = 512};
  spec.attention.qk_rope_head_dim = 64;
  return MakeKvLayout(spec, DType::kBF16, 16);
}

std::string FailureOf(const AvailableMemory& available, const MemoryPlan& plan, const KvWish& wish,
                      ErrorKind kind) {
  try {
    ChooseKv(V2Lite(), plan, available, wish);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.message();
    return error.message();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(MemoryPlan, KvBytesOfAPublishedModel) {
  const AvailableMemory plenty{uint64_t{100} << 30, "the machine"};
  const KvChoice choice =
      ChooseKv(V2Lite(), {}, plenty, {.context = 32768, .model_context = 163840});
  EXPECT_EQ(choice.pages, 2048u);
  EXPECT_EQ(choice.bytes, 972 * kMiB);
  const KvChoice two = ChooseKv(V2Lite(), {}, plenty, {.context = 32768, .max_sequences = 2});
  EXPECT_EQ(two.bytes, 2 * 972 * kMiB);
}

TEST(MemoryPlan, DefaultContextTakesWhatIsThere) {
  const AvailableMemory plenty{uint64_t{100} << 30, "the machine"};
  EXPECT_EQ(ChooseKv(V2Lite(), {}, plenty, {.model_context = 163840}).context, 8192u);
  EXPECT_EQ(ChooseKv(V2Lite(), {}, plenty, {.model_context = 2048}).context, 2048u);
  EXPECT_EQ(ChooseKv(V2Lite(), {}, plenty, {}).context, 8192u);
  MemoryPlan plan;
  plan.weights = 900 * kMiB;
  const AvailableMemory tight{1000 * kMiB, "the machine"};
  const KvChoice choice = ChooseKv(V2Lite(), plan, tight, {.model_context = 163840});
  EXPECT_EQ(choice.context, 50 * kMiB / (31104 * 16) * 16);  // 950 MiB usable
  EXPECT_LE(plan.fixed() + choice.bytes, 950 * kMiB);
}

TEST(MemoryPlan, WhatCannotFitSaysWhyWithNumbers) {
  MemoryPlan plan;
  plan.weights = 900 * kMiB;
  const AvailableMemory group{1000 * kMiB, "the control group /x"};
  std::string message = FailureOf(group, plan, {.context = 32768}, ErrorKind::kResource);
  for (const char* part :
       {"32768", "972.0 MiB", "900.0 MiB", "950.0 MiB", "control group /x", "--ctx 1680"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  }
  plan.weights = 950 * kMiB;
  message = FailureOf(group, plan, {}, ErrorKind::kResource);
  EXPECT_NE(message.find("950.0 MiB"), std::string::npos) << message;
  FailureOf(group, {}, {.context = 4097, .model_context = 4096}, ErrorKind::kUsage);
  FailureOf(group, {}, {.context = 0}, ErrorKind::kUsage);
}

TEST(MemoryPlan, FormatsBytes) {
  EXPECT_EQ(FormatBytes(7), "7 B");
  EXPECT_EQ(FormatBytes(12 << 10), "12 KiB");
  EXPECT_EQ(FormatBytes(312 * kMiB), "312.0 MiB");
  EXPECT_EQ(FormatBytes(1536 * kMiB), "1.5 GiB");
}

}  // namespace
}  // namespace hadal
