// `hadal quantize`: any model that Hadal can open becomes one GGUF file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "formats/checkpoint.h"

namespace hadal {

struct QuantizeReport {
  uint64_t bytes = 0;                  // of the new file
  uint64_t tensors = 0;                // of the new file
  std::vector<std::string> fallbacks;  // tensors written as f16, since rows do not divide
};

// Called after each tensor with the bytes of the source done so far and in all. Return false to
// stop: then Error(kCancelled) is thrown and nothing is left behind.
using QuantizeProgress = std::function<bool(uint64_t done, uint64_t total)>;

// Writes `out` with matrices in `type`: q8_0, q4_0, q4_1, bf16, f16 or another type that
// QuantizeRow has. Norms, biases and routers are written as f32. From GGUF, metadata and names are
// kept. From a Hugging Face folder they are made: architectures with a GGUF counterpart,
// byte-level BPE tokenizers. Throws Error on what GGUF cannot express (dynamic NTK, windows in some
// layers only, a pre-tokenizer without a name), when `out` is a file of the model itself or cannot
// be written, and on non-finite weights.
QuantizeReport QuantizeCheckpoint(const Checkpoint& checkpoint, const std::filesystem::path& out,
                                  DType type, const QuantizeProgress& progress = nullptr);

}  // namespace hadal
