// Test support: the golden cases of tests/data/quant as tensor views, and random test weights.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "quant/blocks.h"

namespace hadal::quant_testing {

struct Case {
  std::string kind;  // "dequantize" or "quantize"
  TensorView view;   // `name` tells the case
  std::vector<float> values;
};

class Goldens {
 public:
  Goldens() : file_(std::string(HADAL_SOURCE_DIR) + "/tests/data/quant/quant.bin") {
    const std::string path = std::string(HADAL_SOURCE_DIR) + "/tests/data/quant/quant.json";
    for (const Json& entry : ParseJson(ReadTextFile(path), path)) cases_.push_back(Read(entry));
  }

  const std::vector<Case>& cases() const { return cases_; }

 private:
  std::span<const std::byte> Part(const Json& entry, const char* name) const {
    if (!entry.contains(name)) return {};
    return file_.bytes().subspan(entry[name]["offset"], entry[name]["size"]);
  }

  Case Read(const Json& entry) const {
    Case result;
    result.kind = entry["kind"];
    TensorView& view = result.view;
    const std::string type = entry["type"];
    HADAL_CHECK(ParseDType(type, view.dtype));
    view.name = result.kind + " " + type + " " + std::to_string(cases_.size());
    view.shape = {entry["rows"], entry["cols"]};
    view.data = Part(entry, "data");
    view.scales = Part(entry, "scales");
    view.scale_block = entry.value("scale_block", 0u);
    view.zeros = Part(entry, "zeros");
    view.group_scales = Part(entry, "group_scales");
    view.group_index = Part(entry, "group_index");
    view.group_size = entry.value("group_size", 0u);
    view.zeros_minus_one = entry.value("zeros_minus_one", false);
    const auto values = Part(entry, "values");
    result.values.resize(values.size() / sizeof(float));
    std::memcpy(result.values.data(), values.data(), values.size());
    return result;
  }

  MappedFile file_;
  std::vector<Case> cases_;
};

inline const std::vector<Case>& GoldenCases() {
  static const Goldens goldens;  // also keeps the mapped data alive
  return goldens.cases();
}

inline TensorView MakeView(DType type, uint64_t rows, uint64_t cols,
                           std::span<const std::byte> data) {
  TensorView view;
  view.name = std::string(Name(type));
  view.dtype = type;
  view.shape = {rows, cols};
  view.data = data;
  return view;
}

inline std::vector<float> RandomFloats(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.5f);
  std::vector<float> out(n);
  for (float& value : out) value = normal(random);
  return out;
}

inline std::vector<float> Dequantized(const TensorView& view) {
  std::vector<float> out(view.elements());
  DequantizeRows(view, 0, view.rows(), out);
  return out;
}

// Equal bits, so that -0 differs from 0 and NaN equals itself; returns the first difference or -1.
inline int64_t FirstBitDifference(std::span<const float> a, std::span<const float> b) {
  HADAL_CHECK(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      return static_cast<int64_t>(i);
    }
  }
  return -1;
}

}  // namespace hadal::quant_testing
