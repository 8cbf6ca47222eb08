#include "memory/memory_fit.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "memory/testing.h"

namespace hadal {
namespace {

// 2 layers, 1 head of 256: 2 KiB of KV per token in bf16, 32 KiB a page.
ModelSpec Spec() {
  return GqaSpec(2, 1, 256);
}

MemoryWish ServeWish() {
  MemoryWish wish;
  wish.choice.limits = {.max_tokens = 512, .max_sequences = 8, .max_logit_rows = 8};
  wish.model_context = 32768;
  wish.all_at_once = false;
  wish.names = {"--max-model-len", "--max-num-seqs", "--max-num-batched-tokens"};
  return wish;
}

// What everything but the KV takes with so many pages, which are one context.
uint64_t Fixed(const MemoryModel& model, const MemoryWish& wish, uint32_t pages) {
  MemoryChoice choice = wish.choice;
  choice.limits.max_context = pages * 16;
  const KvLayout layout = MakeKvLayout(*model.spec, choice.kv_dtype, 16);
  const MemoryBytes bytes = PlanMemory(model, choice, layout, std::vector<uint32_t>{pages});
  return bytes.total() - bytes[MemoryCategory::kKv];
}

std::string Refusal(const MemoryModel& model, const MemoryWish& wish, const MemoryBudget& budget,
                    ErrorKind kind = ErrorKind::kResource) {
  try {
    FitMemory(model, wish, budget);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.message();
    return error.message();
  }
  ADD_FAILURE() << "it fits";
  return {};
}

TEST(FitMemory, ThePoolTakesWhatIsLeft) {
  const TestModel model(Spec());
  const MemoryBudget budget{400 * kMiB, "a test"};
  const FittedMemory fitted = FitMemory(model, ServeWish(), budget);
  EXPECT_EQ(fitted.choice.limits.max_context, 32768u);
  EXPECT_LE(fitted.bytes.total(), budget.bytes);
  // Not a page more would fit: 32 KiB and a little bookkeeping.
  EXPECT_GT(fitted.bytes.total() + 33 * 1024, budget.bytes);
  EXPECT_EQ(fitted.Sequences(32768), fitted.pages[0] / 2048);
}

TEST(FitMemory, ThePoolIsNotLargerThanItsSequences) {
  const TestModel model(Spec());
  const FittedMemory fitted = FitMemory(model, ServeWish(), {uint64_t{100} << 30, "a test"});
  EXPECT_EQ(fitted.pages, std::vector<uint32_t>{8 * 2048});
  EXPECT_EQ(fitted.Sequences(32768), 8u);
}

TEST(FitMemory, ThePoolCanBeGiven) {
  const TestModel model(Spec());
  MemoryWish wish = ServeWish();
  wish.kv_bytes = 100 * kMiB + 5;
  EXPECT_EQ(FitMemory(model, wish, {uint64_t{100} << 30, "a test"}).bytes[MemoryCategory::kKv],
            100 * kMiB);
  wish.kv_bytes = 10 * kMiB;  // less than one context: that is cut
  EXPECT_EQ(FitMemory(model, wish, {uint64_t{1} << 30, "a test"}).choice.limits.max_context, 5120u);
  wish.context = 6000;
  const std::string text = Refusal(model, wish, {uint64_t{1} << 30, "a test"});
  EXPECT_NE(text.find("--kv-memory 10.0 MiB"), std::string::npos) << text;
  EXPECT_NE(text.find("--max-model-len 5120"), std::string::npos) << text;
}

TEST(FitMemory, AGivenPoolThatDoesNotFitIsRefused) {
  const TestModel model(Spec());
  MemoryWish wish = ServeWish();
  wish.kv_bytes = 800 * kMiB;
  const std::string text = Refusal(model, wish, {400 * kMiB, "a test"});
  EXPECT_NE(text.find("KV 800.0 MiB"), std::string::npos) << text;
  const size_t at = text.find("--kv-memory ");
  ASSERT_NE(at, std::string::npos) << text;
  const uint64_t fits = std::stoull(text.substr(at + 12)) * kMiB;
  wish.kv_bytes = fits;
  EXPECT_EQ(FitMemory(model, wish, {400 * kMiB, "a test"}).bytes[MemoryCategory::kKv], fits);
  wish.kv_bytes = fits + 2 * kMiB;
  Refusal(model, wish, {400 * kMiB, "a test"});
}

TEST(FitMemory, TheContextIsCutToWhatFits) {
  const TestModel model(Spec());
  const MemoryWish wish = ServeWish();
  const uint32_t pages = 640;
  const MemoryBudget budget{Fixed(model, wish, pages) + pages * 32 * 1024, "a test"};
  const FittedMemory fitted = FitMemory(model, wish, budget);
  EXPECT_EQ(fitted.choice.limits.max_context, pages * 16u);
  EXPECT_EQ(fitted.wanted_context, 32768u);
  EXPECT_EQ(fitted.bytes.total(), budget.bytes);
}

TEST(FitMemory, AllAtOnceReservesAWholeContextEach) {
  const TestModel model(Spec());
  MemoryWish wish = ServeWish();
  wish.all_at_once = true;
  wish.default_context = 8192;
  const FittedMemory plenty = FitMemory(model, wish, {uint64_t{100} << 30, "a test"});
  EXPECT_EQ(plenty.choice.limits.max_context, 8192u);
  EXPECT_EQ(plenty.pages, std::vector<uint32_t>{8 * 512});
  const MemoryBudget tight{Fixed(model, wish, 800) + 800 * 32 * 1024, "a test"};
  EXPECT_EQ(FitMemory(model, wish, tight).choice.limits.max_context, 100 * 16u);
}

TEST(FitMemory, ImpossibleContextsAreRefused) {
  const TestModel model(Spec());
  MemoryWish wish = ServeWish();
  wish.context = 0;
  Refusal(model, wish, {uint64_t{1} << 40, "a test"}, ErrorKind::kUsage);
  wish.context = 32769;
  Refusal(model, wish, {uint64_t{1} << 40, "a test"}, ErrorKind::kUsage);
}

// Each offer is the last that fits: one step further does not.
TEST(Refusal, OffersTheNearestThatFits) {
  const TestModel model(Spec());
  MemoryWish wish = ServeWish();
  wish.context = 16384;
  const uint32_t pages = 640;
  const MemoryBudget budget{Fixed(model, wish, pages) + pages * 32 * 1024, "a test"};
  const std::string text = Refusal(model, wish, budget);
  EXPECT_NE(text.find("context of 16384 tokens"), std::string::npos) << text;
  EXPECT_NE(text.find("KV 32.0 MiB"), std::string::npos) << text;
  EXPECT_NE(text.find("weights 100.0 MiB"), std::string::npos) << text;
  EXPECT_NE(
      text.find("it would fit with --max-model-len 10240, or --kv-dtype int8, or --weights q8"),
      std::string::npos)
      << text;
}

TEST(Refusal, OffersFewerSequences) {
  ModelSpec spec = Spec();
  spec.vocab = 150000;
  const TestModel model(spec);
  MemoryWish wish = ServeWish();
  wish.choice.limits.max_sequences = wish.choice.limits.max_logit_rows = 256;
  wish.context = 4096;
  MemoryWish eight = wish;
  eight.choice.limits.max_sequences = eight.choice.limits.max_logit_rows = 9;
  const uint64_t nine = LeastMemory(model, eight).bytes.total();
  const std::string text = Refusal(model, wish, {nine - 1, "a test"});
  EXPECT_NE(text.find("--max-num-seqs 8"), std::string::npos) << text;
}

TEST(Refusal, OffersEverythingTogetherWhenNothingElseHelps) {
  const TestModel model(Spec());
  MemoryWish wish = ServeWish();
  const std::string text = Refusal(model, wish, {50 * kMiB, "a test"});
  EXPECT_NE(text.find("even one page of KV"), std::string::npos) << text;
  EXPECT_NE(text.find("--weights q4"), std::string::npos) << text;
  EXPECT_NE(Refusal(model, wish, {kMiB, "a test"}).find("a smaller model"), std::string::npos);
}

TEST(BudgetOf, AShareOfWhatIsLeft) {
  const MemoryBudget budget = BudgetOf({uint64_t{20} << 30, "the machine"}, 0.9);
  EXPECT_NEAR(static_cast<double>(budget.bytes), 0.9 * 20 * (1 << 30), 200 * kMiB);
  EXPECT_NE(budget.whence.find("90 %"), std::string::npos) << budget.whence;
}

}  // namespace
}  // namespace hadal
