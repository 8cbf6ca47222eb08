#include "kv/prefix_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "kv/kv_manager.h"

namespace hadal {
namespace {

using Tokens = std::vector<int32_t>;

TEST(PrefixCache, FindsAChainAndForgetsItsPages) {
  const std::vector<uint32_t> pages = {4};
  PrefixCache cache(2, pages);
  const PrefixNode root = PrefixCache::Root(0);
  bool stored = false;
  const uint32_t page0[] = {0}, page1[] = {1}, page2[] = {2};
  const PrefixNode first = cache.Insert(root, Tokens{1, 2}, page0, stored);
  EXPECT_TRUE(stored);
  const PrefixNode second = cache.Insert(first, Tokens{1, 2}, page1, stored);
  EXPECT_NE(first.id, second.id);
  ASSERT_NE(cache.Find(root, Tokens{1, 2}), nullptr);
  EXPECT_EQ(cache.Find(root, Tokens{1, 2})->pages[0], 0u);
  EXPECT_EQ(cache.Find(first, Tokens{1, 2})->pages[0], 1u);
  EXPECT_EQ(cache.Find(root, Tokens{1, 3}), nullptr);
  EXPECT_EQ(cache.Find(PrefixCache::Root(7), Tokens{1, 2}), nullptr);
  // Known already: keeps its page.
  EXPECT_EQ(cache.Insert(root, Tokens{1, 2}, page2, stored).id, first.id);
  EXPECT_TRUE(cache.knows(0, 0));
  EXPECT_FALSE(cache.knows(0, 2));
  cache.Forget(0, 0);
  cache.Forget(0, 0);
  EXPECT_EQ(cache.Find(root, Tokens{1, 2}), nullptr);
  EXPECT_EQ(cache.n_blocks(), 1u);
  // A new first block does not bring the old second one back.
  const PrefixNode other = cache.Insert(root, Tokens{1, 2}, page2, stored);
  EXPECT_NE(other.id, first.id);
  EXPECT_EQ(cache.Find(other, Tokens{1, 2}), nullptr);
}

KvLayout Layout(std::vector<uint32_t> windows) {
  ModelSpec spec;
  spec.n_layers = static_cast<uint32_t>(windows.size());
  for (const uint32_t window : windows) spec.layers.push_back({.window = window});
  spec.attention = {.n_heads = 1, .n_kv_heads = 1, .head_dim = 4};
  return MakeKvLayout(spec, DType::kF32, 16);
}

// Random texts over two tokens, so that they share beginnings, in few pages. A shadow records what
// each slot was last given: every token that a row sees must find its own text's beginning there.
TEST(PrefixCache, WhatIsReusedIsAlwaysTheRightText) {
  for (const std::vector<uint32_t>& windows :
       {std::vector<uint32_t>{0}, std::vector<uint32_t>{0, 20}, std::vector<uint32_t>{37, 5}}) {
    const KvLayout layout = Layout(windows);
    const auto n_groups = static_cast<uint32_t>(layout.groups.size());
    KvManager kv(layout, std::vector<uint32_t>(n_groups, 13), 24);
    std::mt19937 random(3);
    struct Text {
      Tokens tokens;
      PageTable table;
    };
    std::map<int, Text> open;
    // [group][slot]: the text up to and including the token stored there.
    std::vector<std::vector<Tokens>> shadow(n_groups, std::vector<Tokens>(13 * 16));
    uint64_t reused = 0;
    for (int step = 0, next = 0; step < 6000; ++step) {
      Tokens tokens(1 + random() % 110, 0);
      for (size_t i = 0; i < tokens.size(); i += 16) tokens[i] = static_cast<int32_t>(random() % 2);
      const auto total = static_cast<uint32_t>(tokens.size());
      PrefixMatch match = kv.Match(tokens, total - 1, 0);
      if (random() % 2 == 0 && kv.CanOpen(total, match)) {
        Text& text = open[next++];
        text.table = kv.Open(total, match);
        kv.BeginPublishing(text.table, 0);
        reused += match.n_tokens;
        text.tokens = std::move(tokens);
      }
      for (auto it = open.begin(); it != open.end();) {
        Text& text = it->second;
        const auto size = static_cast<uint32_t>(text.tokens.size());
        if (text.table.n_tokens() == size || random() % 40 == 0) {
          kv.Close(text.table);
          it = open.erase(it);
          continue;
        }
        const uint32_t before = text.table.n_tokens();
        kv.Append(text.table, std::min<uint32_t>(1 + random() % 24, size - before));
        for (uint32_t g = 0; g < n_groups; ++g) {
          const auto pages = text.table.pages(g);
          const auto slot = [&](uint32_t t) -> Tokens& {
            return shadow[g][pages[t / 16] * 16 + t % 16];
          };
          for (uint32_t t = before; t < text.table.n_tokens(); ++t) {
            slot(t).assign(text.tokens.begin(), text.tokens.begin() + t + 1);
          }
          const uint32_t window = layout.groups[g].window;
          const uint32_t seen = window == 0 || before < window ? 0 : before - window + 1;
          for (uint32_t t = seen; t < text.table.n_tokens(); ++t) {
            ASSERT_NE(pages[t / 16], kNoPage);
            ASSERT_TRUE(std::equal(slot(t).begin(), slot(t).end(), text.tokens.begin(),
                                   text.tokens.begin() + t + 1));
          }
        }
        while (kv.publishes(text.table) &&
               (kv.n_published(text.table) + 1) * 16 <= text.table.n_tokens()) {
          const auto first = text.tokens.begin() + kv.n_published(text.table) * 16;
          kv.Publish(text.table, Tokens(first, first + 16));
        }
        ++it;
      }
      kv.ForgetOps();
    }
    EXPECT_GT(reused, 10000u);
    for (auto& [id, text] : open) kv.Close(text.table);
    EXPECT_EQ(kv.usage().used_pages + kv.usage().promised_pages + kv.usage().unused_slots, 0u);
  }
}

}  // namespace
}  // namespace hadal
