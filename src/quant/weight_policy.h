// How a checkpoint's tensors are turned into device form.
#pragma once

#include <cstdint>

namespace hadal {

enum class WeightPolicy : uint8_t {
  kAsStored,  // exact integers or the file's own floats
  kF32,       // everything dequantized to f32: exact and slow
  kBf16,      // everything dequantized, then rounded to bf16
  kQ8,        // requantized to 8 bits, groups of 32
  kQ4,        // requantized to 4 bits, groups of 32
};

}  // namespace hadal
