// Quantized Hugging Face checkpoints keep one matrix in several tensors. Joins them into one view.
#pragma once

#include "base/json.h"
#include "formats/gguf.h"

namespace hadal {

// Reads quantization_config (absent: only plain tensors are possible) and replaces the parts
//   FP8:   X.weight + X.weight_scale_inv
//   AWQ:   X.qweight + X.qzeros + X.scales
//   GPTQ:  the same + X.g_idx
// by X.weight. `source` is config.json, for messages. Throws Error on a method or a variant that is
// not supported, and on parts that do not fit together. Returns true when the quantizer may have
// written biases that the architecture does not have.
bool JoinQuantizedParts(const Json& config, const std::string& source, TensorIndex& tensors);

}  // namespace hadal
