#include "quant/quantize.h"

#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "quant/quantize_internal.h"

namespace hadal {
namespace {

using namespace quant_internal;  // NOLINT: the functions of the table below

struct Encoder {
  DType type;
  void (*encode)(const float* x, std::byte* block);
};

constexpr Encoder kEncoders[] = {
    {DType::kQ8_0, EncodeQ8_0},   {DType::kQ4_0, EncodeQ4_0},    {DType::kQ4_1, EncodeQ4_1},
    {DType::kQ5_0, EncodeQ5_0},   {DType::kQ5_1, EncodeQ5_1},    {DType::kQ2_K, EncodeQ2K},
    {DType::kQ3_K, EncodeQ3K},    {DType::kQ4_K, EncodeQ4K},     {DType::kQ5_K, EncodeQ5K},
    {DType::kQ6_K, EncodeQ6K},    {DType::kIQ4_NL, EncodeIq4Nl}, {DType::kIQ4_XS, EncodeIq4Xs},
    {DType::kMXFP4, EncodeMxfp4},
};

const Encoder* FindEncoder(DType type) {
  for (const Encoder& encoder : kEncoders) {
    if (encoder.type == type) return &encoder;
  }
  return nullptr;
}

// The largest magnitude whose scale is a finite f16 in every block type: q8_0 needs |x|/127,
// q4_0 |x|/8, and minimums are stored themselves.
constexpr float kLargest = 65504.0f;

void CheckQuantizable(DType type, std::span<const float> row) {
  for (size_t i = 0; i < row.size(); ++i) {
    if (std::fabs(row[i]) <= kLargest) continue;  // false for NaN
    Fail(ErrorKind::kNumeric, "the value {} in column {} cannot be written as {}", row[i], i,
         Name(type));
  }
}

}  // namespace

bool CanQuantizeTo(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16 ||
         FindEncoder(type) != nullptr;
}

void QuantizeRow(DType type, std::span<const float> row, std::span<std::byte> out) {
  HADAL_CHECK(CanQuantizeTo(type) && out.size() == RowBytes(type, row.size()));
  switch (type) {
    case DType::kF32:
      std::memcpy(out.data(), row.data(), out.size());
      return;
    case DType::kF16:
      for (size_t i = 0; i < row.size(); ++i) Store(out.data() + 2 * i, F32ToF16(row[i]));
      return;
    case DType::kBF16:
      for (size_t i = 0; i < row.size(); ++i) Store(out.data() + 2 * i, F32ToBf16(row[i]));
      return;
    default:
      break;
  }
  CheckQuantizable(type, row);
  const DTypeInfo& info = Info(type);
  const Encoder* encoder = FindEncoder(type);
  for (size_t i = 0; i < row.size() / info.block_elements; ++i) {
    encoder->encode(row.data() + i * info.block_elements, out.data() + i * info.block_bytes);
  }
}

}  // namespace hadal
