// Every element type a tensor can have, in files and in memory, in one closed table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hadal {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kI8,
  kU8,
  kI16,
  kI32,
  kI64,
  kF64,
  // Block-quantized types of GGUF; the bytes are those of the file (layouts: quant/blocks.h).
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  // Composite int4 matrices of Hugging Face checkpoints: `TensorView::data` is the packed int32
  // qweight, the other parts hang on the view.
  kAwq4,
  kGptq4,
};

struct DTypeInfo {
  DType type;
  std::string_view name;    // as users write it: "f32", "q4_0"
  uint32_t block_elements;  // elements along a row that share one block; 1 for plain types
  uint32_t block_bytes;     // bytes of such a block; 0 for the composite types
};

const DTypeInfo& Info(DType type);
inline std::string_view Name(DType type) {
  return Info(type).name;
}

// Looks a name up, ignoring case; returns false when there is no such type.
bool ParseDType(std::string_view name, DType& out);

// Bytes of one row of `columns` elements. Requires columns % block_elements == 0.
uint64_t RowBytes(DType type, uint64_t columns);

}  // namespace hadal
