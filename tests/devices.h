// The devices that golden tests run on: the reference and the CPU at every level of this machine.
#pragma once

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/cpu_features.h"

namespace hadal::testing {

struct Device {
  std::optional<IsaLevel> isa;  // empty: ref
  int threads = 1;

  std::string Label() const {
    return isa ? std::string(Name(*isa)) + "_" + std::to_string(threads) : "ref";
  }
  std::unique_ptr<Backend> Make() const {
    if (!isa) return MakeRefBackend();
    setenv("HADAL_ISA", std::string(Name(*isa)).c_str(), 1);
    std::unique_ptr<Backend> backend = MakeCpuBackend(threads);
    unsetenv("HADAL_ISA");
    return backend;
  }
};

// Every ISA level with each number of threads.
inline std::vector<Device> CpuDevices(std::initializer_list<int> threads) {
  std::vector<Device> devices;
  for (const IsaLevel isa : SupportedIsaLevels()) {
    for (const int n : threads) devices.push_back({isa, n});
  }
  return devices;
}

}  // namespace hadal::testing
