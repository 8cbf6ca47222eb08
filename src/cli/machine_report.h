// What the machine is like and how it would be used.
#pragma once

#include <string>

#include "base/placement.h"
#include "config/options.h"

namespace hadal::cli {

// "not pinned", or "pinned to CPUs 0 2 4 6".
std::string Describe(const Placement& placement);

// Prints the topology, what this process may use of it, and the placement that --threads and --pin
// would get here; one document with --json. Reads, measures nothing.
void InspectMachine(const OptionValues& options);

}  // namespace hadal::cli
