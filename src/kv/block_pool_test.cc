#include "kv/block_pool.h"

#include <gtest/gtest.h>

namespace hadal {
namespace {

TEST(BlockPool, GivesOutTheLongestFreePageFirst) {
  BlockPool pool(3);
  EXPECT_EQ(pool.Allocate(), 0u);
  EXPECT_EQ(pool.Allocate(), 1u);
  EXPECT_TRUE(pool.Release(1));
  EXPECT_TRUE(pool.Release(0));
  EXPECT_EQ(pool.Allocate(), 2u);
  EXPECT_EQ(pool.Allocate(), 1u);
  EXPECT_EQ(pool.Allocate(), 0u);
  EXPECT_EQ(pool.n_free(), 0u);
  EXPECT_EQ(pool.n_used(), 3u);
}

TEST(BlockPool, SharedPageIsFreedByItsLastUser) {
  BlockPool pool(2);
  const uint32_t page = pool.Allocate();
  pool.AddReference(page);
  EXPECT_EQ(pool.references(page), 2u);
  EXPECT_FALSE(pool.Release(page));
  EXPECT_EQ(pool.n_free(), 1u);
  EXPECT_TRUE(pool.Release(page));
  EXPECT_EQ(pool.n_free(), 2u);
}

TEST(BlockPool, WorthlessPagesAreReusedFirst) {
  BlockPool pool(3);
  const uint32_t kept = pool.Allocate(), worthless = pool.Allocate();
  pool.Release(kept);
  pool.Release(worthless, /*reuse_first=*/true);
  EXPECT_EQ(pool.Allocate(), worthless);
  EXPECT_EQ(pool.Allocate(), 2u);
  EXPECT_EQ(pool.Allocate(), kept);
}

TEST(BlockPool, FreePageCanBeTakenOutOfTheMiddle) {
  BlockPool pool(3);
  pool.AddReference(1);
  EXPECT_EQ(pool.n_free(), 2u);
  EXPECT_EQ(pool.Allocate(), 0u);
  EXPECT_EQ(pool.Allocate(), 2u);
  EXPECT_TRUE(pool.Release(1));
  EXPECT_EQ(pool.Allocate(), 1u);
}

TEST(BlockPoolDeathTest, MisuseIsCaught) {
  BlockPool pool(1);
  EXPECT_DEATH(pool.Release(0), "CHECK");
  EXPECT_DEATH(pool.Release(7), "CHECK");
  pool.Allocate();
  EXPECT_DEATH(pool.Allocate(), "CHECK");
}

}  // namespace
}  // namespace hadal
