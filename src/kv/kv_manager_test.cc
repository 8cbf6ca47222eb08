#include "kv/kv_manager.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace hadal {
namespace {

// Groups with the given windows, one layer each.
KvLayout Layout(const std::vector<uint32_t>& windows, uint32_t block_size = 16) {
  ModelSpec spec;
  spec.n_layers = static_cast<uint32_t>(windows.size());
  for (const uint32_t window : windows) spec.layers.push_back({.window = window});
  spec.attention = {.n_heads = 1, .n_kv_heads = 1, .head_dim = 4};
  return MakeKvLayout(spec, DType::kF32, block_size);
}

TEST(KvManager, GrowsPageByPageAndGivesAllBack) {
  KvManager kv(Layout({0}), {4}, 64);
  PageTable table = kv.Open(40);
  EXPECT_EQ(kv.usage().promised_pages, 3u);
  EXPECT_EQ(kv.usage().used_pages, 0u);
  kv.Append(table, 16);
  EXPECT_EQ(table.pages(0).size(), 1u);
  EXPECT_EQ(kv.usage().unused_slots, 0u);
  kv.Append(table, 1);
  EXPECT_EQ(table.pages(0).size(), 2u);
  EXPECT_EQ(kv.usage().promised_pages, 1u);
  EXPECT_EQ(kv.usage().allocated_slots, 32u);
  EXPECT_EQ(kv.usage().unused_slots, 15u);
  EXPECT_DOUBLE_EQ(kv.usage().fragmentation(), 15.0 / 32);
  EXPECT_EQ(kv.ops().size(), 2u);
  EXPECT_EQ(kv.ops()[0].kind, PageOp::Kind::kZero);
  kv.ForgetOps();
  EXPECT_TRUE(kv.ops().empty());
  kv.Close(table);
  EXPECT_FALSE(table.open());
  kv.Close(table);
  EXPECT_EQ(kv.usage().used_pages + kv.usage().promised_pages + kv.usage().unused_slots, 0u);
}

TEST(KvManager, PromisedPagesAreNotGivenToOthers) {
  KvManager kv(Layout({0}), {4}, 64);
  PageTable first = kv.Open(48);
  EXPECT_FALSE(kv.CanOpen(17));
  EXPECT_TRUE(kv.CanOpen(16));
  EXPECT_TRUE(kv.Fits(64));
  EXPECT_FALSE(kv.Fits(65));
  EXPECT_EQ(kv.MaxTokens(), 64u);
  kv.Close(first);
  EXPECT_TRUE(kv.CanOpen(64));
}

TEST(KvManager, WindowedGroupReleasesWhatTheWindowHasPassed) {
  // Window 20, pages of 16: the token at position p sees [p - 19, p].
  KvManager kv(Layout({0, 20}), {10, 10}, 16);
  PageTable table = kv.Open(160);
  kv.Append(table, 16);
  kv.Append(table, 16);
  kv.Append(table, 3);  // first row 32 sees 13..: page 0 stays
  EXPECT_NE(table.pages(1)[0], kNoPage);
  kv.Append(table, 1);  // row 35 sees 16..: page 0 goes, in the windowed group alone
  EXPECT_EQ(table.pages(1)[0], kNoPage);
  EXPECT_NE(table.pages(1)[1], kNoPage);
  EXPECT_NE(table.pages(0)[0], kNoPage);
  EXPECT_EQ(kv.pool(0).n_used(), 3u);
  EXPECT_EQ(kv.pool(1).n_used(), 2u);
  EXPECT_EQ(kv.usage().used_bytes,
            3 * kv.layout().groups[0].page_bytes + 2 * kv.layout().groups[1].page_bytes);
  kv.Close(table);
  EXPECT_EQ(kv.usage().used_pages, 0u);
}

TEST(KvManager, WindowBoundsWhatALongSequenceNeeds) {
  KvManager kv(Layout({20}), {4}, 16);
  // 20 - 1 + 16 = 35 tokens touch at most 4 pages of 16.
  EXPECT_EQ(kv.PagesNeeded(0, 1'000'000), 4u);
  ASSERT_TRUE(kv.CanOpen(1000));
  PageTable table = kv.Open(1000);
  std::mt19937 random(1);
  while (table.n_tokens() < 1000) {
    kv.Append(table, std::min<uint32_t>(1 + random() % 16, 1000 - table.n_tokens()));
  }
  kv.Close(table);
  EXPECT_EQ(kv.pool(0).n_free(), 4u);
}

TEST(KvManager, GrowsOnlyAsFarAsPagesGo) {
  KvManager kv(Layout({0}), {4}, 64);
  PageTable first = kv.Open(64, 10), second = kv.Open(64, 20);
  EXPECT_EQ(kv.usage().promised_pages, 3u);
  EXPECT_TRUE(kv.Grow(first, 17));
  EXPECT_FALSE(kv.Grow(second, 33));
  EXPECT_FALSE(kv.Grow(first, 33));
  EXPECT_EQ(kv.usage().promised_pages, 4u);
  EXPECT_TRUE(kv.Grow(first, 32));  // a page is promised whole
  kv.Append(first, 32);
  EXPECT_EQ(kv.PagesToCome(0, second, 64), 2u);
  kv.Close(first);
  EXPECT_TRUE(kv.Grow(second, 64));
  kv.Close(second);
}

TEST(KvManager, TruncatedSlotsLeaveWhatGrowHadNotGiven) {
  KvManager kv(Layout({0}), {4}, 64);
  PageTable table = kv.Open(64, 10);
  kv.Append(table, 10);
  const KvUsage before = kv.usage();
  ASSERT_TRUE(kv.Grow(table, 40));
  kv.Append(table, 30);
  EXPECT_EQ(kv.usage().used_pages, 3u);
  kv.Truncate(table, 11);
  EXPECT_EQ(table.n_tokens(), 11u);
  EXPECT_EQ(table.pages(0).size(), 1u);
  EXPECT_EQ(kv.usage().used_pages, before.used_pages);
  EXPECT_EQ(kv.usage().promised_pages, 0u);
  EXPECT_EQ(kv.usage().unused_slots, before.unused_slots - 1);
  // The page is anybody's again, and comes back zeroed.
  EXPECT_TRUE(kv.CanOpen(48));
  kv.ForgetOps();
  ASSERT_TRUE(kv.Grow(table, 17));
  kv.Append(table, 6);
  EXPECT_EQ(kv.ops().size(), 1u);
  EXPECT_EQ(kv.ops()[0].kind, PageOp::Kind::kZero);
  kv.Truncate(table, 17);  // nothing to do
  EXPECT_EQ(table.n_tokens(), 17u);
  kv.Close(table);
  EXPECT_EQ(kv.usage().used_pages + kv.usage().promised_pages + kv.usage().unused_slots, 0u);
}

TEST(KvManager, TruncationKeepsWhatWasPromisedFromTheBeginning) {
  KvManager kv(Layout({0}), {4}, 64);
  PageTable table = kv.Open(64);
  kv.Append(table, 40);
  kv.Truncate(table, 20);
  EXPECT_EQ(kv.usage().used_pages, 2u);
  EXPECT_EQ(kv.usage().promised_pages, 2u);
  kv.Append(table, 44);
  kv.Close(table);
}

TEST(KvManager, SaltsShareNothing) {
  KvManager kv(Layout({0}), {8}, 64);
  const std::vector<int32_t> text(40, 3);
  PageTable table = kv.Open(40);
  kv.BeginPublishing(table, 0, "a");
  kv.Append(table, 40);
  kv.Publish(table, std::span(text).first(16));
  kv.Publish(table, std::span(text).subspan(16, 16));
  EXPECT_EQ(kv.Match(text, 39, 0, "a").n_tokens, 32u);
  EXPECT_EQ(kv.Match(text, 39, 0, "a").end, MatchEnd::kAsked);
  for (const char* salt : {"", "b", "aa", "0:a"}) {
    EXPECT_EQ(kv.Match(text, 39, 0, salt).n_tokens, 0u) << salt;
  }
  EXPECT_EQ(kv.Match(text, 39, 1, "a").n_tokens, 0u);
  kv.Close(table);
  EXPECT_EQ(kv.usage().cached_pages, 2u);
  PageTable other = kv.Open(128);  // takes every page
  kv.Append(other, 64);
  kv.Append(other, 64);
  EXPECT_EQ(kv.usage().evicted_pages, 2u);
  EXPECT_EQ(kv.Match(text, 39, 0, "a").end, MatchEnd::kEvicted);
  EXPECT_EQ(kv.Match(text, 39, 0, "b").end, MatchEnd::kUnknown);
  kv.Close(other);
}

TEST(KvManager, AWindowedGroupNeedsWhatItsWindowSees) {
  // Eight texts of 4,096 tokens: 256 pages each, but 20 - 1 + 16 tokens touch 4 pages at most.
  EXPECT_EQ(PagesPerGroup(Layout({0, 20}), 8, 4096, 16), (std::vector<uint32_t>{2048, 32}));
  EXPECT_EQ(PagesPerGroup(Layout({0, 20}), 8, 20, 16), (std::vector<uint32_t>{16, 16}));
}

// For random sequences in groups of several windows: no page belongs to two tables, every token a
// row still sees has its page, and the counts are exact.
TEST(KvManager, RandomUseKeepsItsInvariants) {
  const KvLayout layout = Layout({0, 5, 33});
  KvManager kv(layout, {12, 7, 9}, 24);
  std::mt19937 random(7);
  struct Open {
    PageTable table;
    uint32_t total;
  };
  std::map<int, Open> open;
  int next = 0;
  for (int step = 0; step < 4000; ++step) {
    const uint32_t total = 1 + random() % 150;
    if (random() % 3 == 0 && kv.CanOpen(total)) {
      open[next++] = {kv.Open(total), total};
    }
    for (auto it = open.begin(); it != open.end();) {
      auto& [table, size] = it->second;
      if (table.n_tokens() == size || random() % 50 == 0) {
        kv.Close(table);
        it = open.erase(it);
        continue;
      }
      const uint32_t before = table.n_tokens();
      const uint32_t added = std::min<uint32_t>(1 + random() % 24, size - before);
      kv.Append(table, added);
      if (random() % 4 == 0) kv.Truncate(table, before + 1 + random() % added);
      for (uint32_t g = 0; g < 3; ++g) {
        const uint32_t window = layout.groups[g].window;
        const uint32_t seen = window == 0 || before < window ? 0 : before - window + 1;
        for (uint32_t t = seen; t < table.n_tokens(); ++t) {
          ASSERT_NE(table.pages(g)[t / 16], kNoPage) << "group " << g << " token " << t;
        }
      }
      ++it;
    }
    uint64_t unused = 0;
    for (uint32_t g = 0; g < 3; ++g) {
      std::set<uint32_t> used;
      for (const auto& [id, entry] : open) {
        for (const uint32_t page : entry.table.pages(g)) {
          if (page == kNoPage) continue;
          ASSERT_TRUE(used.insert(page).second);
        }
        unused += entry.table.pages(g).size() * 16 - entry.table.n_tokens();
      }
      ASSERT_EQ(used.size(), kv.pool(g).n_used());
    }
    ASSERT_EQ(unused, kv.usage().unused_slots);
    kv.ForgetOps();
  }
  for (auto& [id, entry] : open) kv.Close(entry.table);
  EXPECT_EQ(kv.usage().used_pages, 0u);
  EXPECT_EQ(kv.usage().promised_pages, 0u);
}

}  // namespace
}  // namespace hadal
