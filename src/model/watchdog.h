// Finds where non-finite values come from.
#pragma once

#include <string>

#include "model/model.h"

namespace hadal {

struct NonFiniteReport {
  bool found = false;
  uint32_t layer = 0;  // n_layers: after the last layer
  uint32_t row = 0;    // of the step
  std::string where;   // "layer 3, attention output"
};

// Runs the step again, watching every op, and reports the first output with a NaN or infinity.
// Storing the step's KV a second time changes nothing. Slow; for use after Forward returned
// non-finite logits.
NonFiniteReport FindNonFinite(Model& model, const StepInput& step, KvCache& kv);

}  // namespace hadal
