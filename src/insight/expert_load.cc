#include "insight/expert_load.h"

#include <vector>

namespace hadal {

Taps CountExperts(const ModelSpec& spec, Metrics& metrics) {
  Taps taps;
  if (!spec.moe) return taps;
  const uint32_t n_experts = spec.moe->n_experts;
  metrics.ReserveExperts(static_cast<int>(spec.n_layers), static_cast<int>(n_experts));
  taps.routing = [&metrics, counts = std::vector<uint32_t>(n_experts)](
                     uint32_t layer, uint32_t n_tokens, const Routing& routing) mutable {
    counts.assign(counts.size(), 0);
    for (uint32_t i = 0; i < n_tokens * routing.n_used; ++i) ++counts[routing.experts[i]];
    for (uint32_t e = 0; e < counts.size(); ++e) {
      if (counts[e] > 0) {
        metrics.AddExpertTokens(static_cast<int>(layer), static_cast<int>(e), counts[e]);
      }
    }
  };
  return taps;
}

}  // namespace hadal
