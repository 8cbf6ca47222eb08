// Where packed weights lie: many matrices share a mapping of huge pages, as an expert's matrix
// alone is smaller than one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/topology.h"

namespace hadal {

// Gives memory out and never takes any back: a mapping goes with the last matrix in it. Not
// thread-safe. May go before what it gave.
class PanelArena {
 public:
  // `nodes` over which the memory is spread; null: it lies where it is touched first. Must outlive
  // this.
  explicit PanelArena(const NodeInterleaver* nodes = nullptr) : nodes_(nodes) {}

  // `bytes` > 0 of zeroed memory, 64-byte aligned. Throws Error(kResource).
  std::shared_ptr<std::byte> Take(uint64_t bytes);

 private:
  const NodeInterleaver* nodes_;
  std::shared_ptr<std::byte> slab_;
  uint64_t slab_bytes_ = 0;
  uint64_t used_ = 0;
};

}  // namespace hadal
