#include "base/placement.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace hadal {
namespace {

constexpr PinMode kAuto = PinMode::kAuto;
constexpr PinMode kOn = PinMode::kOn;

Topology Desktop() {  // one node, 8 cores with two threads each
  return TopologyFromSynthetic("pack:1 l3:1 core:8 pu:2");
}
Topology TwoNodes() {  // CPUs 0-15 and 16-31
  return TopologyFromSynthetic("pack:2 [numa] l3:1 core:8 pu:2");
}
Topology Hybrid() {  // two fast cores with two threads each, four slow ones without
  Topology t;
  t.detailed = true;
  for (int core = 0; core < 2; ++core) {
    t.cores.push_back({.kind = CoreKind::kPerformance, .cpus = {2 * core, 2 * core + 1}});
  }
  for (int cpu = 4; cpu < 8; ++cpu) {
    t.cores.push_back({.kind = CoreKind::kEfficiency, .cpus = {cpu}});
  }
  t.allowed = {0, 1, 2, 3, 4, 5, 6, 7};
  t.nodes.push_back({0, 1 << 30, t.allowed});
  return t;
}

std::vector<CpuSet> Pins(const Topology& topology, int threads, PinMode pin = kOn) {
  return ChoosePlacement(topology, threads, pin).pins;
}

TEST(Threads, OnePerPhysicalCore) {
  EXPECT_EQ(DefaultThreads(Desktop()), 8);
  EXPECT_EQ(MostThreads(Desktop()), 16);
  EXPECT_EQ(DefaultThreads(TwoNodes()), 16);
  EXPECT_EQ(ChoosePlacement(TwoNodes(), 0, kAuto).threads, 16);
  EXPECT_EQ(ChoosePlacement(TwoNodes(), 5, kAuto).threads, 5);
}

TEST(Threads, EfficiencyCoresOnlyWhereThereAreNoOthers) {
  Topology t = Hybrid();
  EXPECT_EQ(DefaultThreads(t), 2);
  t.allowed = {5, 6, 7};
  EXPECT_EQ(DefaultThreads(t), 3);
}

TEST(Threads, TheQuotaGrantsWholeThreads) {
  Topology t = Desktop();
  const auto with = [&t](double quota) {
    t.quota = quota;
    return std::pair(DefaultThreads(t), MostThreads(t));
  };
  EXPECT_EQ(with(0.2), std::pair(1, 1));
  EXPECT_EQ(with(1), std::pair(1, 1));
  EXPECT_EQ(with(1.5), std::pair(1, 2));
  EXPECT_EQ(with(1.9), std::pair(2, 2));
  EXPECT_EQ(with(2), std::pair(2, 2));
  EXPECT_EQ(with(6.75), std::pair(6, 7));
  EXPECT_EQ(with(64), std::pair(8, 16));
}

TEST(Threads, TheAllowedSetCountsByCores) {
  Topology t = Desktop();
  t.allowed = {5};
  EXPECT_EQ(DefaultThreads(t), 1);
  t.allowed = {4, 5};  // one core's two threads
  EXPECT_EQ(DefaultThreads(t), 1);
  t.allowed = {1, 3, 4, 5, 15};
  EXPECT_EQ(DefaultThreads(t), 4);
  EXPECT_EQ(MostThreads(t), 5);
}

TEST(Threads, WithoutHwlocEachCpuIsACore) {
  Topology t;
  t.allowed = {0, 1, 2};
  for (const int cpu : t.allowed) t.cores.push_back({.cpus = {cpu}});
  t.nodes.push_back({0, 0, t.allowed});
  EXPECT_EQ(DefaultThreads(t), 3);
  EXPECT_FALSE(ChoosePlacement(t, 0, kAuto).pinned());
  EXPECT_EQ(Pins(t, 2), (std::vector<CpuSet>{{0}, {1}}));
}

TEST(Threads, NeverMoreThanAPoolTakes) {
  EXPECT_EQ(DefaultThreads(TopologyFromSynthetic("pack:4 core:128 pu:1")), 256);
}

TEST(Pins, FewThreadsStayOnOneNode) {
  EXPECT_EQ(Pins(TwoNodes(), 3), (std::vector<CpuSet>{{0, 1}, {2, 3}, {4, 5}}));
  const Placement nine = ChoosePlacement(TwoNodes(), 9, kOn);
  EXPECT_EQ(nine.pins.back(), (CpuSet{16, 17}));
  EXPECT_EQ(nine.nodes, (std::vector<int>{0, 1}));
  EXPECT_EQ(ChoosePlacement(TwoNodes(), 8, kOn).nodes, std::vector<int>{0});
  // Unpinned threads may run anywhere.
  EXPECT_EQ(ChoosePlacement(TwoNodes(), 8, PinMode::kOff).nodes, (std::vector<int>{0, 1}));
}

TEST(Pins, TheNodeWithMoreAllowedCoresComesFirst) {
  Topology t = TwoNodes();
  t.allowed = {0, 16, 18, 19, 20};
  EXPECT_EQ(Pins(t, 4), (std::vector<CpuSet>{{16}, {18, 19}, {20}, {0}}));
}

TEST(Pins, ALevelThreeCacheFillsBeforeTheNext) {
  const Topology t = TopologyFromSynthetic("pack:1 l3:2 core:2 pu:1");
  EXPECT_EQ(Pins(t, 3), (std::vector<CpuSet>{{0}, {1}, {2}}));
}

TEST(Pins, PerformanceCoresFirstThenTheOthersThenTwice) {
  EXPECT_EQ(Pins(Hybrid(), 7), (std::vector<CpuSet>{{0, 1}, {2, 3}, {4}, {5}, {6}, {7}, {0, 1}}));
}

TEST(Pins, EveryPinIsAllowed) {
  Topology t = TwoNodes();
  t.allowed = {1, 6, 7, 9, 17, 30, 31};
  for (int threads = 1; threads <= 40; ++threads) {
    for (const CpuSet& pin : Pins(t, threads)) {
      ASSERT_FALSE(pin.empty());
      EXPECT_EQ(Intersect(pin, t.allowed), pin);
    }
  }
}

TEST(Pins, AutoPinsWhereCoresDifferAndAllAreUsed) {
  EXPECT_TRUE(ChoosePlacement(TwoNodes(), 0, kAuto).pinned());
  EXPECT_TRUE(ChoosePlacement(Hybrid(), 0, kAuto).pinned());
  EXPECT_TRUE(ChoosePlacement(TopologyFromSynthetic("pack:1 l3:2 core:2 pu:1"), 0, kAuto).pinned());
  EXPECT_FALSE(ChoosePlacement(Desktop(), 0, kAuto).pinned());
  EXPECT_FALSE(ChoosePlacement(TwoNodes(), 8, kAuto).pinned());
  EXPECT_FALSE(ChoosePlacement(TwoNodes(), 32, kAuto).pinned());
  EXPECT_FALSE(ChoosePlacement(TwoNodes(), 0, PinMode::kOff).pinned());
}

TEST(Pins, AutoLeavesThreadsAloneUnderAQuota) {
  Topology t = TwoNodes();
  t.quota = 16;  // as many as cores, half of the hardware threads
  EXPECT_FALSE(ChoosePlacement(t, 0, kAuto).pinned());
  t.quota = 32;
  EXPECT_TRUE(ChoosePlacement(t, 0, kAuto).pinned());
}

TEST(Pins, ModesByName) {
  EXPECT_EQ(ParsePinMode("auto"), kAuto);
  EXPECT_EQ(ParsePinMode("on"), kOn);
  EXPECT_EQ(ParsePinMode("off"), PinMode::kOff);
  EXPECT_THROW(ParsePinMode("yes"), Error);
}

}  // namespace
}  // namespace hadal
