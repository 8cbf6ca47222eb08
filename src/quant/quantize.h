// Scalar quantization of rows: the writers' side of blocks.h.
#pragma once

#include <cstddef>
#include <span>

#include "tensor/dtype.h"

namespace hadal {

// Whether QuantizeRow exists for the type: f32, f16, bf16 and every block type of GGUF.
bool CanQuantizeTo(DType type);

// Writes `row` (a multiple of the type's block) as RowBytes(type, row.size()) bytes.
//
// f16 and bf16 round to nearest even. q8_0, q4_0, q4_1, q5_0, q5_1 and mxfp4 give the bytes of
// GGUF's reference quantizers. The others are valid and reasonably near (largest magnitude or range
// sets the scale, integers by rounding), without the search for better scales that dedicated
// converters do; they serve tests and random-weight models.
//
// Throws Error(kNumeric), naming the column, for a value that is not finite or too large for the
// type's f16 scale; f32, f16 and bf16 take every value. Thread-safe.
void QuantizeRow(DType type, std::span<const float> row, std::span<std::byte> out);

}  // namespace hadal
