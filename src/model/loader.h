// From a checkpoint's tensors to weights on the device.
#pragma once

#include "model/model.h"
#include "model/weights.h"

namespace hadal {

struct LoadedWeights {
  ModelWeights weights;
  uint64_t bytes = 0;       // packed, all of them
  uint64_t step_bytes = 0;  // what one decoded token reads: only the chosen experts, one embedding
  LoadOutcome outcome;
};

// Uploads tensor by tensor, releasing the file's pages behind each. Refuses non-finite weights and
// scales. Where options.cache holds what an earlier load made of the same tensors, which were
// checked then, reads that instead; else leaves it there. Throws Error(kBadFile | kUnsupported |
// kResource), and what options.progress throws.
LoadedWeights LoadWeights(const Checkpoint& checkpoint, Backend& backend,
                          const LoadOptions& options);

}  // namespace hadal
