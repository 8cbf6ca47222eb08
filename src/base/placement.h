// How many compute threads there are, where they run, and which nodes hold what they read: chosen
// from the topology alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/topology.h"

namespace hadal {

enum class PinMode : uint8_t { kAuto, kOn, kOff };
// "auto", "on" or "off"; throws Error(kUsage) otherwise.
PinMode ParsePinMode(std::string_view text);

struct Placement {
  int threads = 1;
  // Where thread i belongs: one core's hardware threads. Empty: the system places the threads.
  std::vector<CpuSet> pins;
  std::vector<int> nodes;  // NumaNode::id of those that the threads run on, ascending
  std::string pin_reason;  // why there are pins, or why not: "off by --pin", ...

  bool pinned() const { return !pins.empty(); }
};

// One thread for each physical core that this process may use, efficiency cores left out, and never
// more than the quota grants whole: 1.5 CPUs are 1 thread, 1.9 are 2. Between 1 and 256.
int DefaultThreads(const Topology& topology);

// The most threads that do not wait for one another: the allowed hardware threads, and the quota
// rounded up. At least 1.
int MostThreads(const Topology& topology);

// `threads` is 0 for the default. Threads go to performance cores first, fill one NUMA node and
// level-3 cache before the next, and take each core once before any core twice.
//
// kAuto pins only where the system cannot know better and no neighbour is hurt: the cores differ
// in node, level-3 cache or kind; no quota stands below the allowed CPUs; and there is exactly one
// thread per allowed core of the better kind, so that two processes that share a machine by
// --threads never choose the same half of it.
Placement ChoosePlacement(const Topology& topology, int threads, PinMode pin);

}  // namespace hadal
