// Shared by the packer and the unpacker of panels.
#pragma once

#include "base/check.h"
#include "quant/panel.h"

namespace hadal::quant_internal {

// Where element k of row r lies among plain floats of `bytes` bytes.
inline uint64_t FloatOffset(PanelKind kind, uint64_t k, uint32_t r) {
  switch (kind) {
    case PanelKind::kF32:
      return (k * kPanelRows + r) * 4;
    case PanelKind::kF16:
      return (k * kPanelRows + r) * 2;
    case PanelKind::kBF16:
      return (k / 2 * kPanelRows + r) * 4 + k % 2 * 2;
    default:
      break;
  }
  HADAL_CHECK(false);
  return 0;
}

}  // namespace hadal::quant_internal
