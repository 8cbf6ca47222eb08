#include "base/placement.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"

namespace hadal {
namespace {

constexpr int kMaxThreads = 256;  // of ThreadPool

// Allowed parts of the cores, in the order in which threads take them.
std::vector<PhysicalCore> AllowedCores(const Topology& topology) {
  std::vector<PhysicalCore> cores;
  std::map<int, size_t> on_node;
  for (const PhysicalCore& core : topology.cores) {
    CpuSet cpus = Intersect(core.cpus, topology.allowed);
    if (cpus.empty()) continue;
    cores.push_back(core);
    cores.back().cpus = std::move(cpus);
    ++on_node[core.node];
  }
  // The node with the most cores comes first: fewer threads than cores then share one node.
  std::stable_sort(cores.begin(), cores.end(), [&](const PhysicalCore& a, const PhysicalCore& b) {
    const auto key = [&](const PhysicalCore& core) {
      return std::tuple(core.kind == CoreKind::kEfficiency,
                        kMaxThreads * 256 - static_cast<int64_t>(on_node[core.node]), core.node,
                        core.l3);
    };
    return key(a) < key(b);
  });
  return cores;
}

// Of the better kind.
size_t BestCores(const std::vector<PhysicalCore>& cores) {
  const auto best = std::count_if(cores.begin(), cores.end(), [](const PhysicalCore& core) {
    return core.kind != CoreKind::kEfficiency;
  });
  return best == 0 ? cores.size() : static_cast<size_t>(best);
}

bool CoresDiffer(const std::vector<PhysicalCore>& cores) {
  return std::any_of(cores.begin(), cores.end(), [&](const PhysicalCore& core) {
    return core.node != cores[0].node || core.l3 != cores[0].l3 || core.kind != cores[0].kind;
  });
}

bool QuotaApplies(const Topology& topology) {
  return topology.quota > 0 && topology.quota < static_cast<double>(topology.allowed.size());
}

// The reason, and whether it speaks for pinning.
std::pair<bool, std::string> DecidePins(const Topology& topology,
                                        const std::vector<PhysicalCore>& cores, int threads,
                                        PinMode pin) {
  if (pin == PinMode::kOff) return {false, "off by --pin"};
  if (cores.empty()) return {false, "the cores are not known"};
  if (pin == PinMode::kOn) return {true, "on by --pin"};
  if (!topology.detailed) return {false, "the cores are not known"};
  if (QuotaApplies(topology)) return {false, "a quota shares the CPUs out by time"};
  if (static_cast<size_t>(threads) != BestCores(cores)) {
    return {false, "the threads leave cores to others, or share them"};
  }
  if (!CoresDiffer(cores)) return {false, "all cores are alike"};
  return {true, "one thread per core, and the cores differ"};
}

}  // namespace

PinMode ParsePinMode(std::string_view text) {
  if (text == "auto") return PinMode::kAuto;
  if (text == "on") return PinMode::kOn;
  if (text == "off") return PinMode::kOff;
  Fail(ErrorKind::kUsage, "--pin: '{}' is not auto, on or off", text);
}

int DefaultThreads(const Topology& topology) {
  const std::vector<PhysicalCore> cores = AllowedCores(topology);
  int threads = static_cast<int>(cores.empty() ? topology.allowed.size() : BestCores(cores));
  // Within a tenth of the next whole CPU the time lost to throttling is less than a thread's.
  if (topology.quota > 0) {
    threads = static_cast<int>(std::min<double>(threads, std::floor(topology.quota + 0.1)));
  }
  return std::clamp(threads, 1, kMaxThreads);
}

int MostThreads(const Topology& topology) {
  int threads = static_cast<int>(topology.allowed.size());
  if (topology.quota > 0) {
    threads = static_cast<int>(std::min<double>(threads, std::ceil(topology.quota)));
  }
  return std::max(threads, 1);
}

Placement ChoosePlacement(const Topology& topology, int threads, PinMode pin) {
  Placement placement;
  placement.threads = threads > 0 ? threads : DefaultThreads(topology);
  const std::vector<PhysicalCore> cores = AllowedCores(topology);
  bool pinned = false;
  std::tie(pinned, placement.pin_reason) = DecidePins(topology, cores, placement.threads, pin);
  if (pinned) {
    for (int thread = 0; thread < placement.threads; ++thread) {
      placement.pins.push_back(cores[static_cast<size_t>(thread) % cores.size()].cpus);
    }
  }
  // Without pins a thread may run wherever the process may.
  const size_t used =
      pinned ? std::min(cores.size(), static_cast<size_t>(placement.threads)) : cores.size();
  std::set<int> nodes;
  for (size_t i = 0; i < used; ++i) {
    nodes.insert(topology.nodes[static_cast<size_t>(cores[i].node)].id);
  }
  placement.nodes.assign(nodes.begin(), nodes.end());
  return placement;
}

}  // namespace hadal
