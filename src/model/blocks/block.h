// What every block gets: the device, the model's shape and the step's buffers.
#pragma once

#include <string_view>

#include "backend/backend.h"
#include "model/activations.h"
#include "model/model.h"
#include "spec/model_spec.h"

namespace hadal {

struct BlockContext {
  Backend& backend;
  const ModelSpec& spec;
  const Activations& a;  // cut to this step's rows
  const Taps* taps;      // may be null

  // Shows an op's output to an observer. Free without one.
  void Observe(uint32_t layer, std::string_view what, Tensor values) const {
    if (taps != nullptr && taps->values) taps->values(layer, what, values);
  }
};

// The first `cols` columns of `tensor`.
inline Tensor FirstColumns(Tensor tensor, uint32_t cols) {
  return {tensor.data, tensor.rows, cols, tensor.stride};
}

// [n, heads * dim] seen as [n * heads, dim]. Requires rows without gaps.
inline Tensor PerHead(Tensor tensor, uint32_t dim) {
  return {tensor.data, tensor.rows * (tensor.cols / dim), dim};
}

}  // namespace hadal
