#include "backend/cpu/cpu_weight.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>

#include "base/error.h"
#include "quant/testing.h"

namespace hadal {
namespace {

using quant_testing::Case;
using quant_testing::GoldenCases;
using quant_testing::MakeView;
using quant_testing::RandomFloats;

BlobReader Kept(const Weight& weight) {
  FileDescriptor fd(::memfd_create("weights", MFD_CLOEXEC));
  BlobWriter writer(fd.get(), "weights");
  for (const auto part : weight.packed()) writer.Append(part);
  writer.Finish("key");
  return BlobReader(std::move(fd), "weights");
}

void ExpectSame(const Weight& a, const Weight& b, const std::string& what) {
  EXPECT_EQ(a.rows(), b.rows()) << what;
  EXPECT_EQ(a.cols(), b.cols()) << what;
  EXPECT_EQ(a.bytes(), b.bytes()) << what;
  const auto left = a.packed();
  const auto right = b.packed();
  ASSERT_EQ(left.size(), right.size()) << what;
  uint64_t bytes = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    bytes += left[i].size();
    EXPECT_TRUE(std::equal(left[i].begin(), left[i].end(), right[i].begin(), right[i].end()))
        << what << ", part " << i;
  }
  EXPECT_EQ(bytes, a.bytes()) << what << ": packed() is not all of it";
}

// The view without what Restore must not need.
TensorView Shape(const TensorView& view) {
  static const std::byte unreadable{};
  TensorView shape = view;
  for (auto* part :
       {&shape.data, &shape.scales, &shape.zeros, &shape.group_scales, &shape.group_index}) {
    if (!part->empty()) *part = std::span(&unreadable, 1);
  }
  return shape;
}

TEST(CpuWeight, RestoreGivesWhatPackingGave) {
  ThreadPool pool(3);
  PanelArena arena;
  int restored = 0;
  for (const Case& golden : GoldenCases()) {
    if (golden.kind != "dequantize" || golden.view.scale_block % kPanelRows != 0) continue;
    for (const WeightPolicy policy : {WeightPolicy::kAsStored, WeightPolicy::kF32,
                                      WeightPolicy::kBf16, WeightPolicy::kQ8, WeightPolicy::kQ4}) {
      std::unique_ptr<CpuWeight> packed;
      try {
        packed = PackWeight(pool, arena, golden.view, policy);
      } catch (const Error&) {
        continue;  // values that cannot be quantized anew
      }
      const BlobReader kept = Kept(*packed);
      ExpectSame(*packed, *RestoreWeight(pool, arena, Shape(golden.view), policy, kept, 0),
                 golden.view.name);
      ++restored;
    }
  }
  EXPECT_GT(restored, 50);
}

TEST(CpuWeight, RestoreReadsVectorsStacksAndLargeMatrices) {
  ThreadPool pool(2);
  PanelArena arena;
  const std::vector<float> values = RandomFloats(2000 * 1033, 7);
  const auto bytes = std::as_bytes(std::span(values));
  TensorView vector = MakeView(DType::kF32, 1, 1033, bytes.first(1033 * 4));
  vector.shape = {1033};
  TensorView stack = MakeView(DType::kF32, 30, 17, bytes.first(5 * 30 * 17 * 4));
  stack.shape = {5, 30, 17};
  const TensorView large = MakeView(DType::kF32, 2000, 1033, bytes);
  for (const TensorView& view : {vector, stack, large}) {
    const auto packed = PackWeight(pool, arena, view, WeightPolicy::kF32);
    const BlobReader kept = Kept(*packed);
    ExpectSame(*packed, *RestoreWeight(pool, arena, Shape(view), WeightPolicy::kF32, kept, 0),
               view.name);
  }
}

TEST(CpuWeight, RestoreRefusesOtherSizes) {
  ThreadPool pool(2);
  PanelArena arena;
  const std::vector<float> values = RandomFloats(64 * 40, 7);
  const TensorView view = MakeView(DType::kF32, 64, 40, std::as_bytes(std::span(values)));
  const BlobReader kept = Kept(*PackWeight(pool, arena, view, WeightPolicy::kF32));
  TensorView other = view;
  other.shape = {80, 40};
  EXPECT_THROW(RestoreWeight(pool, arena, other, WeightPolicy::kF32, kept, 0), Error);
  EXPECT_THROW(RestoreWeight(pool, arena, view, WeightPolicy::kBf16, kept, 0), Error);
  EXPECT_THROW(RestoreWeight(pool, arena, view, WeightPolicy::kF32, kept, 1), Error);
}

}  // namespace
}  // namespace hadal
