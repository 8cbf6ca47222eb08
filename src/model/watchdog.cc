#include "model/watchdog.h"

#include <fmt/format.h>

#include <cmath>

namespace hadal {

NonFiniteReport FindNonFinite(Model& model, const StepInput& step, KvCache& kv) {
  NonFiniteReport report;
  const auto look = [&](uint32_t layer, std::string_view what, Tensor values) {
    for (uint32_t r = 0; r < values.rows && !report.found; ++r) {
      for (uint32_t c = 0; c < values.cols; ++c) {
        if (std::isfinite(values.row(r)[c])) continue;
        report.found = true;
        report.layer = layer;
        report.row = r;
        report.where = layer == model.spec().n_layers ? std::string(what)
                                                      : fmt::format("layer {}, {}", layer, what);
        break;
      }
    }
  };
  Taps taps;
  taps.hidden = [&](uint32_t stage, Tensor values) {
    if (stage == 0) look(0, "token embedding", values);
  };
  taps.values = look;
  model.Forward(step, kv, &taps);
  return report;
}

}  // namespace hadal
