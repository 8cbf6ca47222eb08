#include "kv/swap_space.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "base/error.h"

namespace hadal {
namespace {

TEST(SwapSpace, HoldsWhatIsWrittenAndLeavesNoFile) {
  const std::filesystem::path directory =
      std::filesystem::path(testing::TempDir()) / "hadal_swap_space_test";
  std::filesystem::create_directories(directory);
  {
    SwapSpace swap(directory, 1 << 20);
    ASSERT_EQ(swap.bytes().size(), size_t{1} << 20);
    std::memset(swap.bytes().data(), 7, swap.bytes().size());
    EXPECT_EQ(swap.bytes().back(), std::byte{7});
    EXPECT_TRUE(std::filesystem::is_empty(directory));
  }
  std::filesystem::remove(directory);
}

TEST(SwapSpace, WhatCannotBeIsAnErrorAtTheStart) {
  EXPECT_THROW(SwapSpace("/does/not/exist", 4096), Error);
  // More than any disk has.
  EXPECT_THROW(SwapSpace(testing::TempDir(), uint64_t{1} << 60), Error);
}

TEST(SwapExtents, RandomUseNeverOverlapsAndEndsWhole) {
  SwapExtents extents(1000);
  std::mt19937 random(3);
  std::vector<std::pair<uint64_t, uint64_t>> held;
  for (int step = 0; step < 5000; ++step) {
    if (random() % 2 == 0) {
      const uint64_t bytes = 1 + random() % 120;
      if (const auto offset = extents.Allocate(bytes)) {
        ASSERT_LE(*offset + bytes, 1000u);
        for (const auto& [other, size] : held) {
          ASSERT_TRUE(*offset + bytes <= other || other + size <= *offset);
        }
        held.push_back({*offset, bytes});
      }
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      extents.Free(held.back().first, held.back().second);
      held.pop_back();
    }
    uint64_t used = 0;
    for (const auto& [offset, size] : held) used += size;
    ASSERT_EQ(extents.used_bytes(), used);
  }
  for (const auto& [offset, size] : held) extents.Free(offset, size);
  EXPECT_EQ(extents.Allocate(1000), 0u);
  EXPECT_EQ(extents.Allocate(1), std::nullopt);
  EXPECT_EQ(SwapExtents(0).Allocate(1), std::nullopt);
}

}  // namespace
}  // namespace hadal
