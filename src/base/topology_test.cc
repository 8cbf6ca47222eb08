#include "base/topology.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hwloc.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"

namespace hadal {
namespace {

namespace fs = std::filesystem;

// Six cores as a hybrid processor shows them: two with two threads each, four without.
std::string HybridXml() {
  hwloc_topology_t topology = nullptr;
  hwloc_topology_init(&topology);
  hwloc_topology_set_synthetic(topology, "pack:1 l3:1 core:8 pu:1");
  hwloc_topology_load(topology);
  const auto mark = [&](unsigned first, unsigned last, const char* type) {
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    hwloc_bitmap_set_range(set, first, static_cast<int>(last));
    std::string name = "CoreType";
    std::string value = type;
    hwloc_info_s info{name.data(), value.data()};
    hwloc_cpukinds_register(topology, set, -1, 1, &info, 0);
    hwloc_bitmap_free(set);
  };
  mark(0, 1, "IntelCore");
  mark(2, 7, "IntelAtom");
  char* buffer = nullptr;
  int length = 0;
  hwloc_topology_export_xmlbuffer(topology, &buffer, &length, 0);
  std::string xml(buffer);
  hwloc_free_xmlbuffer(topology, buffer);
  hwloc_topology_destroy(topology);
  return xml;
}

TEST(Topology, TwoPackagesWithHyperThreads) {
  const Topology t = TopologyFromSynthetic(
      "pack:2 [numa(memory=32GB)] l3:1(size=32MB) l2:4(size=1MB) core:1 pu:2");
  EXPECT_TRUE(t.detailed);
  EXPECT_EQ(t.packages, 2);
  EXPECT_EQ(t.n_cpus(), 16u);
  ASSERT_EQ(t.nodes.size(), 2u);
  EXPECT_EQ(Describe(t.nodes[1].cpus), "8-15");
  EXPECT_GE(t.nodes[0].bytes, uint64_t{32'000'000'000});
  ASSERT_EQ(t.cores.size(), 8u);
  EXPECT_EQ(t.cores[5].cpus, (CpuSet{10, 11}));
  EXPECT_EQ(t.cores[5].package, 1);
  EXPECT_EQ(t.cores[5].node, 1);
  EXPECT_EQ(t.cores[5].l3, 1);
  EXPECT_EQ(t.cores[5].kind, CoreKind::kUniform);
  size_t l2 = 0;
  for (const Cache& cache : t.caches) l2 += cache.level == 2 && cache.cpus.size() == 2;
  EXPECT_EQ(l2, 8u);
  EXPECT_EQ(Describe(t.allowed), "0-15");
  EXPECT_EQ(t.quota, 0);
}

TEST(Topology, HybridCoresComeFromTheirType) {
  const Topology t = TopologyFromXml(HybridXml());
  ASSERT_EQ(t.cores.size(), 8u);
  EXPECT_EQ(t.cores[1].kind, CoreKind::kPerformance);
  EXPECT_EQ(t.cores[2].kind, CoreKind::kEfficiency);
  EXPECT_EQ(t.cores[7].kind, CoreKind::kEfficiency);
}

TEST(Topology, NonsenseIsAnError) {
  EXPECT_THROW(TopologyFromSynthetic("pack:none"), Error);
  EXPECT_THROW(TopologyFromXml("<topology"), Error);
  EXPECT_THROW(TopologyFromXml(""), Error);
}

TEST(Topology, ThisMachineHoldsWhatIsAllowed) {
  const Topology t = ReadTopology();
  ASSERT_FALSE(t.allowed.empty());
  ASSERT_FALSE(t.nodes.empty());
  CpuSet all;
  for (const PhysicalCore& core : t.cores) {
    all.insert(all.end(), core.cpus.begin(), core.cpus.end());
    EXPECT_LT(static_cast<size_t>(core.node), t.nodes.size());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(Intersect(all, t.allowed), t.allowed);
  for (const int cpu : t.allowed) {
    cpu_set_t set;
    ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
    EXPECT_TRUE(CPU_ISSET(static_cast<size_t>(cpu), &set));
  }
}

TEST(Topology, FollowsTheAffinityOfItsThread) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  const int cpu = ReadTopology().allowed.back();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(cpu), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(ReadTopology().allowed, CpuSet{cpu});
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(Topology, SetsAsText) {
  EXPECT_EQ(Describe(CpuSet{}), "none");
  EXPECT_EQ(Describe(CpuSet{3}), "3");
  EXPECT_EQ(Describe(CpuSet{0, 1, 2, 5, 6, 9}), "0-2,5,6,9");
  EXPECT_EQ(Intersect({0, 2, 4}, {1, 2, 4, 5}), (CpuSet{2, 4}));
}

TEST(NodeInterleaver, AsksNothingOnOneNode) {
  char byte = 0;
  EXPECT_TRUE(NodeInterleaver({}).Spread(&byte, 1));
  EXPECT_TRUE(NodeInterleaver({0}).Spread(&byte, 1));
}

// On a machine with one node the kernel refuses the second, or takes what there is.
TEST(NodeInterleaver, SetsThePolicyOfMemory) {
  const Topology t = ReadTopology();
  std::vector<int> nodes;
  for (const NumaNode& node : t.nodes) nodes.push_back(node.id);
  if (nodes.size() < 2) nodes = {nodes[0], nodes[0]};
  constexpr size_t kBytes = 4 << 20;
  void* data = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(data, MAP_FAILED);
  const bool spread = NodeInterleaver(nodes).Spread(data, kBytes);
  int mode = -1;
  constexpr unsigned long kOfAddress = 2;  // MPOL_F_ADDR
  const long asked = syscall(SYS_get_mempolicy, &mode, nullptr, 0, data, kOfAddress);
  munmap(data, kBytes);
  if (!spread || asked != 0) GTEST_SKIP() << "this system lets no one set the policy of memory";
  constexpr int kInterleave = 3;  // MPOL_INTERLEAVE
  EXPECT_EQ(mode, kInterleave);
}

// A made-up /proc and /sys.
class CpuQuota : public testing::Test {
 protected:
  CpuQuota()
      : root_(fs::temp_directory_path() /
              fmt::format("hadal_quota_{}_{}", getpid(),
                          testing::UnitTest::GetInstance()->current_test_info()->name())) {}
  ~CpuQuota() override { fs::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  double Read() const { return ReadCpuQuota(root_); }
  fs::path root_;
};

TEST_F(CpuQuota, NoneWithoutGroups) {
  EXPECT_EQ(Read(), 0);
  Write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(Read(), 0);
  Write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(Read(), 0);
}

TEST_F(CpuQuota, VersionTwoTakesTheSmallestOnTheWay) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(Read(), 0);
  Write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(Read(), 1.5);
  Write("sys/fs/cgroup/a/b/cpu.max", "25000 50000\n");
  EXPECT_EQ(Read(), 0.5);
}

TEST_F(CpuQuota, AContainerSeesItsOwnAtTheTop) {
  Write("proc/self/cgroup", "0::/docker/0123456789\n");
  Write("sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(Read(), 3);
}

TEST_F(CpuQuota, VersionOne) {
  Write("proc/self/cgroup", "5:cpuset:/other\n4:cpu,cpuacct:/kube/pod\n0::/\n");
  Write("sys/fs/cgroup/cpu,cpuacct/kube/pod/cpu.cfs_quota_us", "-1\n");
  Write("sys/fs/cgroup/cpu,cpuacct/kube/pod/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read(), 0);
  Write("sys/fs/cgroup/cpu,cpuacct/kube/cpu.cfs_quota_us", "250000\n");
  Write("sys/fs/cgroup/cpu,cpuacct/kube/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read(), 2.5);
  Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read(), 2);
}

TEST_F(CpuQuota, NonsenseIsNoQuota) {
  Write("proc/self/cgroup", "0::/\nnonsense\n");
  for (const char* text : {"", "x y", "100000", "100000 0", "-5 100000", "0 100000"}) {
    Write("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(Read(), 0) << text;
  }
}

}  // namespace
}  // namespace hadal
