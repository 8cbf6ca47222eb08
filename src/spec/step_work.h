// How much arithmetic a model does, counted from its spec.
#pragma once

#include <cstdint>

#include "spec/model_spec.h"

namespace hadal {

// Floating-point operations (a multiply-add is two) for one token.
struct TokenWork {
  uint64_t layers = 0;       // matrix products of all layers, chosen experts only
  uint64_t head = 0;         // logits, where they are wanted
  uint64_t per_context = 0;  // attention, for each token of context that full layers see
};

TokenWork CountTokenWork(const ModelSpec& spec);

}  // namespace hadal
