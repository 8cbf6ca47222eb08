// From the options of `serve` to what the engine is told.
#pragma once

#include <memory>
#include <string>

#include "config/options.h"
#include "engine/engine.h"
#include "kv/swap_space.h"

namespace hadal::cli {

// All but what the session knows: the step's limits, the vocabulary. `metrics` may be null.
EngineOptions ServingOptions(const OptionValues& options, Metrics* metrics);

// --swap-space in --swap-path; null when none is wanted, and when it cannot be had: then `problem`
// says why, and preempted sequences are computed again.
std::unique_ptr<SwapSpace> OpenSwapSpace(const OptionValues& options, std::string& problem);

}  // namespace hadal::cli
