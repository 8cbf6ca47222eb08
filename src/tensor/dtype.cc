#include "tensor/dtype.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/check.h"

namespace hadal {
namespace {

// In the order of the enum, so that the value is the index.
constexpr std::array kTypes = {
    DTypeInfo{DType::kF32, "f32", 1, 4},         DTypeInfo{DType::kF16, "f16", 1, 2},
    DTypeInfo{DType::kBF16, "bf16", 1, 2},       DTypeInfo{DType::kF8E4M3, "f8_e4m3", 1, 1},
    DTypeInfo{DType::kI8, "i8", 1, 1},           DTypeInfo{DType::kU8, "u8", 1, 1},
    DTypeInfo{DType::kI16, "i16", 1, 2},         DTypeInfo{DType::kI32, "i32", 1, 4},
    DTypeInfo{DType::kI64, "i64", 1, 8},         DTypeInfo{DType::kF64, "f64", 1, 8},
    DTypeInfo{DType::kQ8_0, "q8_0", 32, 34},     DTypeInfo{DType::kQ4_0, "q4_0", 32, 18},
    DTypeInfo{DType::kQ4_1, "q4_1", 32, 20},     DTypeInfo{DType::kQ5_0, "q5_0", 32, 22},
    DTypeInfo{DType::kQ5_1, "q5_1", 32, 24},     DTypeInfo{DType::kQ2_K, "q2_k", 256, 84},
    DTypeInfo{DType::kQ3_K, "q3_k", 256, 110},   DTypeInfo{DType::kQ4_K, "q4_k", 256, 144},
    DTypeInfo{DType::kQ5_K, "q5_k", 256, 176},   DTypeInfo{DType::kQ6_K, "q6_k", 256, 210},
    DTypeInfo{DType::kIQ4_NL, "iq4_nl", 32, 18}, DTypeInfo{DType::kIQ4_XS, "iq4_xs", 256, 136},
    DTypeInfo{DType::kMXFP4, "mxfp4", 32, 17},   DTypeInfo{DType::kAwq4, "awq4", 1, 0},
    DTypeInfo{DType::kGptq4, "gptq4", 1, 0},
};

}  // namespace

const DTypeInfo& Info(DType type) {
  const auto& info = kTypes[static_cast<size_t>(type)];
  HADAL_CHECK(info.type == type);
  return info;
}

bool ParseDType(std::string_view name, DType& out) {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  for (const DTypeInfo& info : kTypes) {
    if (std::equal(name.begin(), name.end(), info.name.begin(), info.name.end(), same)) {
      out = info.type;
      return true;
    }
  }
  return false;
}

uint64_t RowBytes(DType type, uint64_t columns) {
  const DTypeInfo& info = Info(type);
  HADAL_CHECK(columns % info.block_elements == 0);
  return columns / info.block_elements * info.block_bytes;
}

}  // namespace hadal
