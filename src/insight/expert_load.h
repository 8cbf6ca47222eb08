// Which experts the router chooses, counted while the model serves.
#pragma once

#include "metrics/metrics.h"
#include "model/model.h"

namespace hadal {

// Makes the series of hadal_expert_tokens_total for a model with experts and returns the taps that
// count into them; for a model without, taps that do nothing. `metrics` must outlive the taps'
// use. Once per Metrics.
Taps CountExperts(const ModelSpec& spec, Metrics& metrics);

}  // namespace hadal
