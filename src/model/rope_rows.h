// cos and sin for the tokens of a step, computed once per step for all layers.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "spec/rope_table.h"

namespace hadal {

class RopeRows {
 public:
  void Reserve(const RopeTable& rope, uint32_t max_tokens);

  // Fills cos and sin [n_tokens, dim/2], which lie in `buffer`.
  void Write(const RopeTable& rope, const StepInput& step, Backend& backend, Buffer& buffer,
             Tensor cos, Tensor sin);

 private:
  std::vector<float> cos_, sin_;  // [max_tokens, dim/2], on the host
  // Frequencies of the last length seen; those of neighbouring tokens are mostly the same.
  std::vector<double> frequencies_;
  uint64_t length_ = 0;
};

}  // namespace hadal
