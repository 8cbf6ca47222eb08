#include "sched/draft.h"

#include <gtest/gtest.h>

#include <random>

#include "sched/draft_lengths.h"

namespace hadal {
namespace {

using Tokens = std::vector<int32_t>;

Draft Find(const Tokens& prompt, const Tokens& generated, uint32_t most) {
  Draft draft;
  FindDraft(prompt, generated, most, draft);
  return draft;
}

TEST(FindDraft, WhatFollowedTheLastTokensBefore) {
  const Draft draft = Find({5, 6, 7, 8, 9, 10}, {1, 6, 7}, 3);
  EXPECT_EQ(draft.tokens, (Tokens{8, 9, 10}));
  EXPECT_EQ(draft.match, 2u);
  EXPECT_EQ(Find({5, 6, 7, 8, 9, 10}, {1, 6, 7}, 1).tokens, (Tokens{8}));
}

TEST(FindDraft, NothingWhereNothingOccurredBefore) {
  EXPECT_TRUE(Find({}, {}, 4).tokens.empty());
  EXPECT_TRUE(Find({1}, {}, 4).tokens.empty());
  EXPECT_TRUE(Find({1, 1}, {}, 4).tokens.empty());
  EXPECT_TRUE(Find({1, 2, 3, 4, 5}, {6, 7}, 4).tokens.empty());
  EXPECT_TRUE(Find({1, 2, 3, 4, 9}, {3}, 4).tokens.empty());  // one token is no match
  EXPECT_TRUE(Find({1, 2, 3, 1, 2}, {}, 0).tokens.empty());
}

TEST(FindDraft, TheLongestMatchAndOfEqualsTheLatest) {
  // 2 3 occurs three times; before the first of them stands 1, as at the end.
  const Draft longest = Find({1, 2, 3, 40, 9, 2, 3, 50, 8, 2, 3, 60}, {1, 2, 3}, 1);
  EXPECT_EQ(longest.tokens, (Tokens{40}));
  EXPECT_EQ(longest.match, 3u);
  EXPECT_EQ(Find({7, 2, 3, 40, 9, 2, 3, 50, 8, 2, 3, 60}, {1, 2, 3}, 1).tokens, (Tokens{60}));
}

TEST(FindDraft, AcrossTheEndOfThePrompt) {
  EXPECT_EQ(Find({4, 1, 2}, {3, 5, 1, 2}, 2).tokens, (Tokens{3, 5}));
  EXPECT_EQ(Find({9, 1}, {2, 3, 5, 1, 2}, 2).tokens, (Tokens{3, 5}));
  EXPECT_EQ(Find({}, {1, 2, 3, 1, 2}, 1).tokens, (Tokens{3}));
}

TEST(FindDraft, ALoopGoesOnBeyondTheEnd) {
  EXPECT_EQ(Find({7, 7, 7}, {}, 5).tokens, (Tokens{7, 7, 7, 7, 7}));
  EXPECT_EQ(Find({1, 2, 3, 1, 2, 3, 1, 2}, {}, 7).tokens, (Tokens{3, 1, 2, 3, 1, 2, 3}));
}

// Against a plain search, over texts of few tokens cut anywhere.
TEST(FindDraft, IsWhatAPlainSearchFinds) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    const uint32_t n = random() % 200, kinds = 2 + random() % 20;
    Tokens text;
    for (uint32_t i = 0; i < n; ++i) text.push_back(static_cast<int32_t>(random() % kinds));
    uint32_t best = 0;
    size_t next = 0;
    uint32_t looked_at = 0;
    for (size_t end = n; end-- > 1 && best < kLongestMatch && looked_at < 64;) {
      uint32_t match = 0;
      while (match < std::min<size_t>(end, kLongestMatch) &&
             text[end - 1 - match] == text[n - 1 - match]) {
        ++match;
      }
      looked_at += match >= kShortestMatch;
      if (match < kShortestMatch || match <= best) continue;
      best = match;
      next = end;
    }
    const auto split = text.begin() + static_cast<std::ptrdiff_t>(n == 0 ? 0 : random() % n);
    const Draft draft = Find({text.begin(), split}, {split, text.end()}, 3);
    ASSERT_EQ(draft.match, best);
    ASSERT_EQ(draft.tokens.size(), best == 0 ? 0u : 3u);
    if (best > 0) {
      ASSERT_EQ(draft.tokens[0], text[next]);
    }
  }
}

TEST(DraftRecord, FollowsWhatCameTrueByLengthOfTheMatch) {
  DraftRecord record;
  EXPECT_LT(record.Chance(2), record.Chance(3));
  EXPECT_LT(record.Chance(3), record.Chance(5));
  EXPECT_LT(record.Chance(5), record.Chance(8));
  const double other = record.Chance(2);
  for (int i = 0; i < 50; ++i) record.Note(100, false);
  EXPECT_LT(record.Chance(16), 0.02);
  EXPECT_EQ(record.Chance(2), other);
  for (int i = 0; i < 50; ++i) record.Note(100, true);
  EXPECT_GT(record.Chance(16), 0.98);
}

// A model that has seen a machine.
CostModel Machine(double step, double row) {
  CostModel cost;
  for (uint64_t i = 0; i < 500; ++i) {
    StepShape shape;
    for (uint64_t r = 0; r <= i % 12; ++r) shape += DraftRowShape(100);
    cost.Observe(shape, step + row * static_cast<double>(shape.tokens));
  }
  return cost;
}

DraftRecord Record(bool came_true) {
  DraftRecord record;
  for (uint32_t match = 2; match < 12; ++match) {
    for (int i = 0; i < 60; ++i) record.Note(match, came_true);
  }
  return record;
}

std::vector<uint32_t> Choose(const CostModel& cost, const DraftBudget& budget,
                             std::vector<DraftChoice> choices) {
  StepShape base;
  for (size_t i = 0; i < choices.size(); ++i) base += DraftRowShape(100);
  ChooseDraftLengths(cost, base, budget, choices);
  std::vector<uint32_t> lengths;
  for (const DraftChoice& choice : choices) lengths.push_back(choice.length);
  return lengths;
}

TEST(DraftLengths, DependOnWhatARowCosts) {
  const DraftRecord good = Record(true), bad = Record(false), unknown;
  const DraftBudget budget{.rows = 100};
  const auto lengths = [&](double step, double row, const DraftRecord& record, uint32_t match) {
    return Choose(Machine(step, row), budget, {{&record, match, 8, 100, 0}})[0];
  };
  // Rows that cost next to nothing, a fifth of a step, all of it.
  EXPECT_EQ(lengths(10e-3, 0.01e-3, good, 8), 8u);
  EXPECT_EQ(lengths(10e-3, 2e-3, good, 8), 8u);
  EXPECT_EQ(lengths(0.01e-3, 10e-3, good, 8), 0u);
  EXPECT_EQ(lengths(10e-3, 2e-3, bad, 8), 0u);
  const uint32_t cheap = lengths(10e-3, 0.5e-3, unknown, 4),
                 dear = lengths(10e-3, 3e-3, unknown, 4);
  EXPECT_GT(cheap, dear);
  EXPECT_GT(dear, 0u);
  EXPECT_EQ(lengths(10e-3, 5e-3, unknown, 2), 0u);
}

TEST(DraftLengths, KeepToRowsAndSeconds) {
  const DraftRecord good = Record(true);
  const CostModel cost = Machine(10e-3, 1e-3);
  const DraftChoice one{&good, 8, 8, 100, 0}, none{&good, 0, 0, 100, 0};
  EXPECT_EQ(Choose(cost, {.rows = 5}, {one, none, one}), (std::vector<uint32_t>{3, 0, 2}));
  EXPECT_EQ(Choose(cost, {.rows = 0}, {one}), (std::vector<uint32_t>{0}));
  const uint32_t within = Choose(cost, {.rows = 100, .seconds = 14.5e-3}, {one})[0];
  EXPECT_GE(within, 2u);
  EXPECT_LE(within, 4u);
  EXPECT_EQ(Choose(cost, {.rows = 100, .seconds = 1e-3}, {one})[0], 0u);
  const DraftRecord bad = Record(false);
  const DraftChoice hopeless{&bad, 2, 8, 100, 0};
  EXPECT_EQ(Choose(cost, {.rows = 100, .always = true}, {hopeless, one}),
            (std::vector<uint32_t>{8, 8}));
}

}  // namespace
}  // namespace hadal
