#include "base/topology.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <thread>

#include "base/error.h"

namespace hadal {
namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Handle = std::unique_ptr<hwloc_topology, Destroy>;

struct FreeBitmap {
  void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

// Null when hwloc fails.
Handle Init() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  return Handle(topology);
}

// Null when hwloc fails. CPUs that are not allowed are part of the machine, and looking at it must
// not move this thread from CPU to CPU.
Handle Load(Handle topology) {
  constexpr unsigned long kFlags =
      HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED | HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
  if (topology == nullptr || hwloc_topology_set_flags(topology.get(), kFlags) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    return nullptr;
  }
  return topology;
}

CpuSet ToCpus(hwloc_const_bitmap_t set) {
  CpuSet cpus;
  if (set == nullptr || hwloc_bitmap_weight(set) < 0) return cpus;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) {
    cpus.push_back(cpu);
  }
  return cpus;
}

template <typename Body>
void ForEach(hwloc_topology_t topology, hwloc_obj_type_t type, Body&& body) {
  for (hwloc_obj_t object = hwloc_get_next_obj_by_type(topology, type, nullptr); object != nullptr;
       object = hwloc_get_next_obj_by_type(topology, type, object)) {
    body(object);
  }
}

void ReadNodes(hwloc_topology_t topology, Topology& out) {
  ForEach(topology, HWLOC_OBJ_NUMANODE, [&](hwloc_obj_t node) {
    CpuSet cpus = ToCpus(node->cpuset);
    if (cpus.empty()) return;  // memory alone, of a slower kind
    out.nodes.push_back(
        {static_cast<int>(node->os_index), node->attr->numanode.local_memory, std::move(cpus)});
  });
}

// The smallest of the places that hold `cpu`; 0 when none does.
template <typename Place>
int PlaceOf(const std::vector<Place>& places, int cpu) {
  int found = 0;
  size_t smallest = SIZE_MAX;
  for (size_t i = 0; i < places.size(); ++i) {
    const CpuSet& cpus = places[i].cpus;
    if (cpus.size() < smallest && std::binary_search(cpus.begin(), cpus.end(), cpu)) {
      smallest = cpus.size();
      found = static_cast<int>(i);
    }
  }
  return found;
}

void ReadCores(hwloc_topology_t topology, Topology& out) {
  std::vector<Cache> l3;
  for (const Cache& cache : out.caches) {
    if (cache.level == 3) l3.push_back(cache);
  }
  const auto add = [&](hwloc_obj_t core) {
    CpuSet cpus = ToCpus(core->cpuset);
    if (cpus.empty()) return;
    PhysicalCore to;
    if (const hwloc_obj_t package =
            hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, core)) {
      to.package = static_cast<int>(package->logical_index);
    }
    to.node = PlaceOf(out.nodes, cpus.front());
    to.l3 = PlaceOf(l3, cpus.front());
    to.cpus = std::move(cpus);
    out.cores.push_back(std::move(to));
  };
  ForEach(topology, HWLOC_OBJ_CORE, add);
  if (out.cores.empty()) ForEach(topology, HWLOC_OBJ_PU, add);
}

void ReadCaches(hwloc_topology_t topology, Topology& out) {
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE}) {
    ForEach(topology, type, [&](hwloc_obj_t cache) {
      out.caches.push_back({static_cast<int>(cache->attr->cache.depth), cache->attr->cache.size,
                            ToCpus(cache->cpuset)});
    });
  }
}

// Only what the processor itself says. hwloc also ranks cores by their highest clock, which tells
// favoured cores of a server apart that are otherwise equal.
void ReadKinds(hwloc_topology_t topology, Topology& out) {
  const int kinds = hwloc_cpukinds_get_nr(topology, 0);
  if (kinds < 2) return;
  const Bitmap set(hwloc_bitmap_alloc());
  for (int kind = 0; kind < kinds; ++kind) {
    unsigned n_infos = 0;
    hwloc_info_s* infos = nullptr;
    if (hwloc_cpukinds_get_info(topology, static_cast<unsigned>(kind), set.get(), nullptr, &n_infos,
                                &infos, 0) != 0) {
      continue;
    }
    for (unsigned i = 0; i < n_infos; ++i) {
      if (std::string_view(infos[i].name) != "CoreType") continue;
      const CoreKind core_kind = std::string_view(infos[i].value) == "IntelAtom"
                                     ? CoreKind::kEfficiency
                                     : CoreKind::kPerformance;
      for (PhysicalCore& core : out.cores) {
        if (hwloc_bitmap_isset(set.get(), static_cast<unsigned>(core.cpus.front())) != 0) {
          core.kind = core_kind;
        }
      }
    }
  }
}

Topology Describe(hwloc_topology_t topology) {
  Topology out;
  out.detailed = true;
  out.packages = std::max(1, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE));
  ReadNodes(topology, out);
  ReadCaches(topology, out);
  ReadCores(topology, out);
  ReadKinds(topology, out);
  out.allowed = ToCpus(hwloc_topology_get_allowed_cpuset(topology));
  return out;
}

// Affinity of the calling thread, which the kernel keeps within the control group's set.
CpuSet Affinity() {
  CpuSet cpus;
  for (int most = 1024; most <= 1 << 17; most *= 2) {
    const size_t bytes = CPU_ALLOC_SIZE(most);
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
        CPU_ALLOC(most), [](cpu_set_t* memory) { CPU_FREE(memory); });
    if (set == nullptr) break;
    if (sched_getaffinity(0, bytes, set.get()) != 0) continue;
    for (int cpu = 0; cpu < most; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.push_back(cpu);
    }
    break;
  }
  if (cpus.empty()) {
    const int n = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    for (int cpu = 0; cpu < n; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

// What can be said without hwloc: each CPU is a core, all on one node.
Topology Plain(CpuSet cpus) {
  Topology out;
  out.allowed = cpus;
  for (const int cpu : cpus) out.cores.push_back({.cpus = {cpu}});
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  const uint64_t bytes =
      pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
  out.nodes.push_back({0, bytes, std::move(cpus)});
  return out;
}

bool Usable(const Topology& topology) {
  return !topology.nodes.empty() && !topology.cores.empty() && !topology.allowed.empty();
}

Topology MadeUp(Handle topology, std::string_view what) {
  topology = Load(std::move(topology));
  Topology out;
  if (topology != nullptr) out = Describe(topology.get());
  if (!Usable(out)) Fail(ErrorKind::kInvalid, "'{}' describes no machine", what.substr(0, 80));
  return out;
}

}  // namespace

std::string_view Name(CoreKind kind) {
  constexpr std::string_view kNames[] = {"uniform", "efficiency", "performance"};
  return kNames[static_cast<size_t>(kind)];
}

size_t Topology::n_cpus() const {
  size_t n = 0;
  for (const PhysicalCore& core : cores) n += core.cpus.size();
  return n;
}

Topology ReadTopology() {
  const Handle handle = Load(Init());
  Topology out;
  if (handle != nullptr) out = Describe(handle.get());
  // HWLOC_SYNTHETIC and HWLOC_XMLFILE put another machine in the place of this one.
  if (handle == nullptr || hwloc_topology_is_thissystem(handle.get()) != 0) {
    out.allowed = Intersect(out.allowed, Affinity());
  }
  if (!Usable(out)) out = Plain(Affinity());
  out.quota = ReadCpuQuota();
  return out;
}

Topology TopologyFromSynthetic(const std::string& text) {
  Handle handle = Init();
  if (handle != nullptr && hwloc_topology_set_synthetic(handle.get(), text.c_str()) != 0) {
    handle = nullptr;
  }
  return MadeUp(std::move(handle), text);
}

Topology TopologyFromXml(const std::string& xml) {
  Handle handle = Init();
  if (handle != nullptr && hwloc_topology_set_xmlbuffer(handle.get(), xml.c_str(),
                                                        static_cast<int>(xml.size() + 1)) != 0) {
    handle = nullptr;
  }
  return MadeUp(std::move(handle), xml);
}

std::string Describe(const CpuSet& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[i]);
    if (last > i) text += fmt::format("{}{}", last == i + 1 ? "," : "-", cpus[last]);
    i = last + 1;
  }
  return text.empty() ? "none" : text;
}

CpuSet Intersect(const CpuSet& a, const CpuSet& b) {
  CpuSet both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

struct NodeInterleaver::Impl {
  Handle topology;
  Bitmap nodes;
};

NodeInterleaver::NodeInterleaver(const std::vector<int>& nodes) {
  if (nodes.size() < 2) return;
  impl_ = std::make_unique<Impl>(Impl{Load(Init()), Bitmap(hwloc_bitmap_alloc())});
  for (const int node : nodes) {
    hwloc_bitmap_set(impl_->nodes.get(), static_cast<unsigned>(node));
  }
}
NodeInterleaver::~NodeInterleaver() = default;
NodeInterleaver::NodeInterleaver(NodeInterleaver&&) noexcept = default;
NodeInterleaver& NodeInterleaver::operator=(NodeInterleaver&&) noexcept = default;

bool NodeInterleaver::Spread(void* data, uint64_t bytes) const {
  if (impl_ == nullptr) return true;
  return impl_->topology != nullptr &&
         hwloc_set_area_membind(impl_->topology.get(), data, bytes, impl_->nodes.get(),
                                HWLOC_MEMBIND_INTERLEAVE, HWLOC_MEMBIND_BYNODESET) == 0;
}

}  // namespace hadal
