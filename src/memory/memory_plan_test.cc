#include "memory/memory_plan.h"

#include <gtest/gtest.h>

#include "memory/testing.h"

namespace hadal {
namespace {

// Published dimensions; what a token takes is worked out by hand in each comment.
TEST(KvBytes, OfPublishedModels) {
  // 27 layers of (512 + 64) in 16 bits.
  const KvLayout v2_lite = MakeKvLayout(MlaSpec(27), DType::kBF16, 16);
  EXPECT_EQ(v2_lite.bytes_per_token(), 31104u);
  EXPECT_EQ(KvBytes(v2_lite, std::vector<uint32_t>{32768 / 16}), 972 * kMiB);
  // DeepSeek-V3 and R1: 61 layers of the same.
  const KvLayout v3 = MakeKvLayout(MlaSpec(61), DType::kBF16, 64);
  EXPECT_EQ(v3.bytes_per_token(), 70272u);
  EXPECT_EQ(KvBytes(v3, std::vector<uint32_t>{2048 / 64}), 137 * kMiB + kMiB / 4);
  // R1-Distill-Qwen-7B: 2 * 28 layers * 4 heads * 128 in 16 bits.
  EXPECT_EQ(MakeKvLayout(GqaSpec(28, 4, 128), DType::kBF16, 16).bytes_per_token(), 57344u);
  // In 8 bits each head's key and value has a scale of four bytes besides: 132 instead of 256.
  EXPECT_EQ(MakeKvLayout(GqaSpec(28, 4, 128), DType::kI8, 16).bytes_per_token(),
            57344u * 132 / 256);
}

TEST(PlanMemory, IsTheSumOfItsParts) {
  const TestModel model(GqaSpec(2, 1, 32));
  MemoryChoice choice;
  choice.limits = {.max_tokens = 64, .max_sequences = 4, .max_logit_rows = 8, .max_context = 128};
  choice.swap_bytes = 5 * kMiB;
  const KvLayout layout = MakeKvLayout(*model.spec, DType::kBF16, 16);
  const MemoryBytes bytes = PlanMemory(model, choice, layout, std::vector<uint32_t>{10});
  EXPECT_EQ(bytes[MemoryCategory::kWeights], 100 * kMiB);
  EXPECT_EQ(bytes[MemoryCategory::kKv], 10u * 16 * 2 * 2 * 32 * 2);
  EXPECT_EQ(bytes[MemoryCategory::kLogits], 8u * 1000 * 4);
  EXPECT_EQ(bytes[MemoryCategory::kActivations], 64u * 4096);
  EXPECT_EQ(bytes[MemoryCategory::kTokenizer], kMiB);
  EXPECT_EQ(bytes[MemoryCategory::kSwap], 5 * kMiB);
  uint64_t sum = 0;
  for (const MemoryCategory category : kAllMemoryCategories) sum += bytes[category];
  EXPECT_EQ(bytes.total(), sum - 5 * kMiB);  // the swap file is no memory
  EXPECT_GT(bytes[MemoryCategory::kOverhead], kMiB);
}

TEST(DealPages, SharesBlocksOutAndKeepsOneWholeText) {
  const KvLayout layout = MakeKvLayout(GqaSpec(2, 1, 32), DType::kBF16, 16);
  EXPECT_EQ(DealPages(layout, 4, 64, 160, 0), std::vector<uint32_t>{10});
  EXPECT_EQ(DealPages(layout, 4, 64, 160, 13), std::vector<uint32_t>{13});
  EXPECT_EQ(DealPages(layout, 4, 64, 160, 40), std::vector<uint32_t>{40});
}

TEST(DealPages, AWindowNeedsOnlyWhatItSees) {
  ModelSpec spec = GqaSpec(4, 1, 32);
  spec.layers[1].window = spec.layers[3].window = 64;
  const KvLayout layout = MakeKvLayout(spec, DType::kBF16, 16);
  // 63 earlier tokens and a chunk of 32 touch at most 7 pages of 16.
  EXPECT_EQ(DealPages(layout, 2, 32, 1600, 0), (std::vector<uint32_t>{100, 7}));
  EXPECT_EQ(DealPages(layout, 2, 32, 1600, 200), (std::vector<uint32_t>{200, 14}));
  // Short texts need as much of it as of the other group.
  EXPECT_EQ(DealPages(layout, 64, 32, 1600, 128), (std::vector<uint32_t>{128, 128}));
}

TEST(KvBytes, MadeUpDimensionsDoNotWrapAround) {
  KvLayout layout = MakeKvLayout(GqaSpec(2, 1, 32), DType::kBF16, 16);
  layout.groups[0].page_bytes = uint64_t{1} << 60;
  EXPECT_EQ(KvBytes(layout, std::vector<uint32_t>{1 << 20}), UINT64_MAX);
  MemoryBytes bytes;
  bytes[MemoryCategory::kKv] = UINT64_MAX;
  bytes[MemoryCategory::kWeights] = 5;
  EXPECT_EQ(bytes.total(), UINT64_MAX);
}

TEST(FormatBytes, ThreeDigitsOrSo) {
  EXPECT_EQ(FormatBytes(7), "7 B");
  EXPECT_EQ(FormatBytes(12 << 10), "12 KiB");
  EXPECT_EQ(FormatBytes(312 * kMiB), "312.0 MiB");
  EXPECT_EQ(FormatBytes(1536 * kMiB), "1.5 GiB");
}

}  // namespace
}  // namespace hadal
