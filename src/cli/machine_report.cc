#include "cli/machine_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "base/cpu_features.h"
#include "base/json.h"
#include "cli/session.h"

namespace hadal::cli {
namespace {

size_t AllowedCores(const Topology& topology) {
  return static_cast<size_t>(std::count_if(
      topology.cores.begin(), topology.cores.end(),
      [&](const PhysicalCore& core) { return !Intersect(core.cpus, topology.allowed).empty(); }));
}

// "madvise" out of "always [madvise] never"; "unknown" where there is no such file.
std::string TransparentHugePages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  for (std::string word; file >> word;) {
    if (word.size() > 2 && word.front() == '[') return word.substr(1, word.size() - 2);
  }
  return "unknown";
}

std::string IsaNames() {
  std::string names;
  for (const IsaLevel level : SupportedIsaLevels()) {
    names += fmt::format("{}{}", names.empty() ? "" : " ", Name(level));
  }
  return names;
}

std::string Size(uint64_t bytes) {
  if (bytes >= uint64_t{1} << 30) {
    return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
  }
  return bytes >= 1 << 20 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10);
}

// "0 2 4 6", or "0,1 2,3" where cores have two hardware threads.
std::string PinnedCpus(const Placement& placement) {
  std::string text;
  for (const CpuSet& cpus : placement.pins) {
    text += fmt::format("{}{}", text.empty() ? "" : " ", hadal::Describe(cpus));
  }
  return text;
}

std::map<std::string, size_t> KindCounts(const Topology& topology) {
  std::map<std::string, size_t> counts;
  for (const PhysicalCore& core : topology.cores) ++counts[std::string(Name(core.kind))];
  return counts;
}

void PrintCaches(const Topology& topology) {
  for (int level = 1; level <= 3; ++level) {
    std::map<std::pair<uint64_t, size_t>, size_t> alike;  // size and sharers -> how many
    for (const Cache& cache : topology.caches) {
      if (cache.level == level) ++alike[{cache.bytes, cache.cpus.size()}];
    }
    std::string text;
    for (const auto& [kind, n] : alike) {
      text += fmt::format("{}{} x {}, each for {} CPU{}", text.empty() ? "" : "; ", n,
                          Size(kind.first), kind.second, kind.second == 1 ? "" : "s");
    }
    if (!text.empty())
      fmt::print("{:<15}{}\n", level == 1 ? "L1d" : fmt::format("L{}", level), text);
  }
}

void PrintText(const Topology& topology, const Placement& placement) {
  fmt::print("processor      {}, {} package{}, {} cores, {} hardware threads\n", CpuModelName(),
             topology.packages, topology.packages == 1 ? "" : "s", topology.cores.size(),
             topology.n_cpus());
  if (!topology.detailed) fmt::print("note           hwloc could not read the cores and caches\n");
  const auto kinds = KindCounts(topology);
  for (const auto& [name, n] : kinds) {
    if (kinds.size() > 1) fmt::print("kind           {} {} cores\n", n, name);
  }
  for (const NumaNode& node : topology.nodes) {
    fmt::print("NUMA node {:<4} {}, CPUs {}\n", node.id, Size(node.bytes),
               hadal::Describe(node.cpus));
  }
  PrintCaches(topology);
  fmt::print("allowed        CPUs {}, of {} cores\n", hadal::Describe(topology.allowed),
             AllowedCores(topology));
  fmt::print("quota          {}\n",
             topology.quota > 0 ? fmt::format("{:.6g} CPUs", topology.quota) : "none");
  fmt::print("threads        {}\n", placement.threads);
  fmt::print("pinned         {}\n",
             placement.pinned()
                 ? fmt::format("to CPUs {}: {}", PinnedCpus(placement), placement.pin_reason)
                 : "no: " + placement.pin_reason);
  fmt::print("memory         {}\n",
             placement.nodes.size() > 1
                 ? fmt::format("weights and KV spread over {} NUMA nodes", placement.nodes.size())
                 : "one NUMA node");
  fmt::print("instructions   {}; this machine has {}\n", Name(ChooseIsaLevel()), IsaNames());
  fmt::print("huge pages     transparent: {}\n", TransparentHugePages());
}

OrderedJson ToJson(const Topology& topology, const Placement& placement) {
  OrderedJson json;
  json["processor"] = CpuModelName();
  json["detailed"] = topology.detailed;
  json["packages"] = topology.packages;
  json["nodes"] = OrderedJson::array();
  for (const NumaNode& node : topology.nodes) {
    json["nodes"].push_back({{"id", node.id}, {"bytes", node.bytes}, {"cpus", node.cpus}});
  }
  json["cores"] = OrderedJson::array();
  for (const PhysicalCore& core : topology.cores) {
    json["cores"].push_back({{"package", core.package},
                             {"node", topology.nodes[static_cast<size_t>(core.node)].id},
                             {"kind", Name(core.kind)},
                             {"cpus", core.cpus}});
  }
  json["caches"] = OrderedJson::array();
  for (const Cache& cache : topology.caches) {
    json["caches"].push_back(
        {{"level", cache.level}, {"bytes", cache.bytes}, {"cpus", cache.cpus}});
  }
  json["allowed_cpus"] = topology.allowed;
  json["quota_cpus"] = topology.quota > 0 ? OrderedJson(topology.quota) : OrderedJson(nullptr);
  json["threads"] = placement.threads;
  json["pinned"] = placement.pinned();
  json["pin_reason"] = placement.pin_reason;
  json["pins"] = placement.pins;
  json["memory_nodes"] = placement.nodes;
  json["isa"] = Name(ChooseIsaLevel());
  json["isa_levels"] = OrderedJson::array();
  for (const IsaLevel level : SupportedIsaLevels()) json["isa_levels"].push_back(Name(level));
  json["transparent_huge_pages"] = TransparentHugePages();
  return json;
}

}  // namespace

std::string Describe(const Placement& placement) {
  return placement.pinned() ? "pinned to CPUs " + PinnedCpus(placement) : "not pinned";
}

void InspectMachine(const OptionValues& options) {
  const Topology topology = ReadTopology();
  const Placement placement = PlacementOf(options, topology);
  if (options.Flag("json")) {
    fmt::print("{}\n", ToJson(topology, placement).dump(2));
  } else {
    PrintText(topology, placement);
  }
}

}  // namespace hadal::cli
