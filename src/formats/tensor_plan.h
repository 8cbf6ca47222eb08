// Which tensors a model must hold, with their shapes, from its description alone; and the common
// names of them in both formats.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/archs/arch.h"

namespace hadal {

struct PlannedTensor {
  std::string_view canonical;  // with '#' and '%'; of a bias, that of its weight
  bool bias = false;
  bool optional = false;
  bool matrix = false;  // a weight that may be quantized; norms, biases and routers may not
  uint32_t layer = 0;
  uint32_t expert = 0;
  std::vector<uint64_t> shape;

  std::string Name() const;  // "layers.3.q.bias"
};

// Calls `visit` for each tensor, in the order of the computation. Allocates nothing in proportion
// to the model, so that a visitor may stop hostile dimensions at the first missing tensor by
// throwing.
void VisitTensors(const ModelDescription& model,
                  const std::function<void(const PlannedTensor&)>& visit);

// No model has more: three matrices of each of 256 experts in 61 layers are 46,848.
inline constexpr size_t kMaxTensors = size_t{1} << 20;

// Fills '#' and '%' in.
std::string FillName(std::string_view pattern, uint32_t layer, uint32_t expert);

// Names that every architecture shares.
std::span<const TensorName> CommonHfNames();
std::span<const TensorName> GgufNames();

// One tensor of an opened model.
struct ResolvedTensor {
  std::string name;  // canonical
  TensorView view;
};

// Matches the plan with what files hold. `extra`: names looked up before the common ones.
// `ignorable` tells which left-over tensors to accept. Throws Error(kBadFile) on a missing tensor,
// a wrong shape or type, and a left-over tensor. Sorted by name.
std::vector<ResolvedTensor> ResolveTensors(const ModelDescription& model,
                                           const TensorIndex& tensors,
                                           std::span<const TensorName> extra,
                                           std::span<const TensorName> common,
                                           const std::string& source,
                                           const std::function<bool(std::string_view)>& ignorable);

}  // namespace hadal
