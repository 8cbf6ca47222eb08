// The machine as plain data: packages, NUMA nodes, cores, caches, and what of it this process may
// use. Read with hwloc, here and nowhere else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hadal {

// Hardware threads by the operating system's numbers, ascending.
using CpuSet = std::vector<int>;

enum class CoreKind : uint8_t { kUniform, kEfficiency, kPerformance };
std::string_view Name(CoreKind kind);  // "uniform", "efficiency", "performance"

struct NumaNode {
  int id = 0;  // the operating system's number
  uint64_t bytes = 0;
  CpuSet cpus;
};

struct PhysicalCore {
  int package = 0;  // position among the packages, from 0
  int node = 0;     // position in Topology::nodes of the smallest node that holds it
  int l3 = 0;       // position among the level-3 caches; 0 where there are none
  CoreKind kind = CoreKind::kUniform;
  CpuSet cpus;  // its hardware threads
};

struct Cache {
  int level = 0;  // 1 (data), 2 or 3
  uint64_t bytes = 0;
  CpuSet cpus;  // who shares it
};

struct Topology {
  bool detailed = false;  // false: hwloc could not read it; every CPU then counts as a core
  int packages = 1;
  std::vector<NumaNode> nodes;      // at least one
  std::vector<PhysicalCore> cores;  // at least one
  std::vector<Cache> caches;        // by level, then by CPU
  CpuSet allowed;                   // affinity and control group's set; at least one
  double quota = 0;  // CPUs' worth of time that the control groups grant; 0: no limit

  // Hardware threads of the whole machine.
  size_t n_cpus() const;
};

// This machine and this process: the affinity of the calling thread, which has to be asked before
// anything pins it. Never fails: where hwloc gives nothing, what sched_getaffinity says.
Topology ReadTopology();

// A made-up machine in hwloc's notation ("pack:2 numa:1 l3:1 l2:8 core:1 pu:2"), or a machine that
// was written down as hwloc's XML. All of it is allowed, and there is no quota.
// Throws Error(kInvalid) for text that hwloc does not understand.
Topology TopologyFromSynthetic(const std::string& text);
Topology TopologyFromXml(const std::string& xml);

// The smallest quota of the control groups (v1 or v2) that this process is in, as CPUs' worth of
// time; 0: none. `root` stands in front of /proc and /sys.
double ReadCpuQuota(const std::filesystem::path& root = "/");

// "0-3,8"; "none" for the empty set.
std::string Describe(const CpuSet& cpus);
CpuSet Intersect(const CpuSet& a, const CpuSet& b);

// Spreads memory over NUMA nodes. Thread-safe.
class NodeInterleaver {
 public:
  // NumaNode::id of each; with fewer than two nothing is ever asked of the system.
  explicit NodeInterleaver(const std::vector<int>& nodes);
  ~NodeInterleaver();
  NodeInterleaver(NodeInterleaver&&) noexcept;
  NodeInterleaver& operator=(NodeInterleaver&&) noexcept;

  // Asks that memory not yet touched lie page by page on one node after the other. False, and
  // nothing has changed, where the system refuses.
  bool Spread(void* data, uint64_t bytes) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // null: nothing to ask
};

}  // namespace hadal
