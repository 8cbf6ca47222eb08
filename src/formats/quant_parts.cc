#include "formats/quant_parts.h"

#include <fmt/format.h>

#include <cstring>

#include "base/align.h"
#include "base/error.h"
#include "formats/config_reader.h"

namespace hadal {
namespace {

constexpr uint32_t kFp8Block = 128;

struct Int4Format {
  bool gptq = false;
  uint32_t group_size = 0;  // 0: one group for the whole row
  bool zeros_minus_one = false;
};

void CheckFp8Config(const ConfigReader& config) {
  config.Expect("fmt", "e4m3", "only e4m3 is supported");
  config.Expect("activation_scheme", "dynamic", "only 'dynamic' is supported");
  const std::vector<int32_t> block = config.TokenIds("weight_block_size");
  if (block != std::vector<int32_t>{kFp8Block, kFp8Block}) {
    config.Unsupported("weight_block_size",
                       "is not [128, 128]; other FP8 scalings are not supported");
  }
}

void JoinFp8(const std::string& source, TensorIndex& tensors) {
  constexpr std::string_view kSuffix = "_scale_inv";
  for (auto it = tensors.begin(); it != tensors.end();) {
    if (!it->first.ends_with(kSuffix)) {
      ++it;
      continue;
    }
    const auto weight = tensors.find(it->first.substr(0, it->first.size() - kSuffix.size()));
    const TensorView& scales = it->second;
    if (weight == tensors.end() || weight->second.dtype != DType::kF8E4M3 ||
        weight->second.shape.size() != 2) {
      Fail(ErrorKind::kBadFile, "{}: tensor '{}' belongs to no FP8 matrix", source, it->first);
    }
    const TensorView& view = weight->second;
    const std::vector<uint64_t> want = {CeilDiv(view.shape[0], kFp8Block),
                                        CeilDiv(view.shape[1], kFp8Block)};
    if (scales.dtype != DType::kF32 || scales.shape != want) {
      Fail(ErrorKind::kBadFile, "{}: tensor '{}' must be f32 [{}, {}] for its [{}, {}] matrix",
           source, it->first, want[0], want[1], view.shape[0], view.shape[1]);
    }
    weight->second.scales = scales.data;
    weight->second.scale_block = kFp8Block;
    it = tensors.erase(it);
  }
}

// What AWQ's and GPTQ's configurations have in common.
Int4Format ReadInt4Config(const ConfigReader& config, bool gptq) {
  Int4Format out;
  out.gptq = gptq;
  if (const uint32_t bits = config.Dimension("bits"); bits != 4) {
    config.Unsupported("bits", "is {}; only 4 is supported", bits);
  }
  const auto group = config.OptionalNumber("group_size");
  if (!group) config.Bad("group_size", "is missing");
  if (*group != -1) out.group_size = config.Dimension("group_size");
  if (!gptq) {
    config.Expect("version", "gemm", "only 'gemm' is supported");
    config.Expect("zero_point", true, "only zero points are supported");
    if (out.group_size == 0) config.Unsupported("group_size", "is -1");
    return out;
  }
  config.Expect("is_marlin_format", false, "convert the model to the plain GPTQ format");
  config.OptionalFlag("desc_act");
  config.OptionalFlag("sym");
  const std::string format = config.OptionalText("checkpoint_format").value_or("gptq");
  if (format != "gptq" && format != "gptq_v2") {
    config.Unsupported("checkpoint_format", "is '{}'; gptq and gptq_v2 are supported", format);
  }
  out.zeros_minus_one = format == "gptq";
  return out;
}

const TensorView& Part(const TensorIndex& tensors, const std::string& name,
                       const std::string& source) {
  const auto it = tensors.find(name);
  if (it == tensors.end()) {
    Fail(ErrorKind::kBadFile, "{}: tensor '{}' is missing beside its qweight", source, name);
  }
  return it->second;
}

void CheckPart(const TensorView& part, DType type, const std::vector<uint64_t>& shape,
               const std::string& source) {
  if (part.dtype == type && part.shape == shape) return;
  Fail(ErrorKind::kBadFile, "{}: tensor '{}' must be {} of shape [{}]", source, part.name,
       Name(type), fmt::join(shape, ", "));
}

// Columns that are in order need no index; any other must name groups that exist.
bool NeedsIndex(const TensorView& index, uint64_t group_size, uint64_t n_groups,
                const std::string& source) {
  bool ordered = true;
  if (index.data.empty()) return false;  // MissingData::kAllow: whoever counts bytes misses these
  for (uint64_t i = 0; i < index.elements(); ++i) {
    int32_t group = 0;
    std::memcpy(&group, index.data.data() + i * sizeof(int32_t), sizeof(int32_t));
    if (group < 0 || static_cast<uint64_t>(group) >= n_groups) {
      Fail(ErrorKind::kBadFile, "{}: tensor '{}' names group {} of {}", source, index.name, group,
           n_groups);
    }
    ordered = ordered && static_cast<uint64_t>(group) == i / group_size;
  }
  return !ordered;
}

TensorView JoinInt4(const Int4Format& format, const std::string& stem, const TensorView& packed,
                    const TensorIndex& tensors, const std::string& source) {
  if (packed.dtype != DType::kI32 || packed.shape.size() != 2 ||
      packed.shape[0] > ConfigReader::kMaxDimension ||
      packed.shape[1] > ConfigReader::kMaxDimension) {
    Fail(ErrorKind::kBadFile, "{}: tensor '{}' must be an i32 matrix", source, packed.name);
  }
  const uint64_t in = format.gptq ? packed.shape[0] * 8 : packed.shape[0];
  const uint64_t out = format.gptq ? packed.shape[1] : packed.shape[1] * 8;
  const uint64_t group = format.group_size == 0 ? in : format.group_size;
  if (in % group != 0 || out % 8 != 0) {
    Fail(ErrorKind::kBadFile,
         "{}: tensor '{}': {} inputs and {} outputs do not divide into groups "
         "of {} and words of 8",
         source, packed.name, in, out, group);
  }
  const TensorView& zeros = Part(tensors, stem + ".qzeros", source);
  const TensorView& scales = Part(tensors, stem + ".scales", source);
  CheckPart(zeros, DType::kI32, {in / group, out / 8}, source);
  CheckPart(scales, DType::kF16, {in / group, out}, source);
  TensorView view;
  view.name = packed.name;
  view.dtype = format.gptq ? DType::kGptq4 : DType::kAwq4;
  view.shape = {out, in};
  view.data = packed.data;
  view.zeros = zeros.data;
  view.group_scales = scales.data;
  view.group_size = static_cast<uint32_t>(group);
  view.zeros_minus_one = format.zeros_minus_one;
  if (format.gptq) {
    const TensorView& index = Part(tensors, stem + ".g_idx", source);
    CheckPart(index, DType::kI32, {in}, source);
    if (NeedsIndex(index, group, in / group, source)) view.group_index = index.data;
  }
  return view;
}

void JoinAllInt4(const Int4Format& format, const std::string& source, TensorIndex& tensors) {
  constexpr std::string_view kSuffix = ".qweight";
  std::vector<std::string> stems;
  for (const auto& [name, view] : tensors) {
    if (name.ends_with(kSuffix)) stems.push_back(name.substr(0, name.size() - kSuffix.size()));
  }
  for (const std::string& stem : stems) {
    TensorView view = JoinInt4(format, stem, tensors.at(stem + ".qweight"), tensors, source);
    for (const char* part : {".qweight", ".qzeros", ".scales", ".g_idx"})
      tensors.erase(stem + part);
    if (!tensors.emplace(stem + ".weight", std::move(view)).second) {
      Fail(ErrorKind::kBadFile, "{}: '{}' is there both plain and quantized", source,
           stem + ".weight");
    }
  }
}

}  // namespace

bool JoinQuantizedParts(const Json& config, const std::string& source, TensorIndex& tensors) {
  bool gptq = false;
  const auto quantization = ConfigReader(config, source).OptionalObject("quantization_config");
  if (quantization) {
    const std::string method = quantization->Text("quant_method");
    if (method == "fp8") {
      CheckFp8Config(*quantization);
      JoinFp8(source, tensors);
    } else if (method == "awq" || method == "gptq") {
      gptq = method == "gptq";
      JoinAllInt4(ReadInt4Config(*quantization, gptq), source, tensors);
    } else {
      quantization->Unsupported("quant_method", "is '{}'; fp8, awq and gptq are supported", method);
    }
  }
  for (const auto& [name, view] : tensors) {
    if (view.dtype == DType::kF8E4M3 && view.scale_block == 0) {
      Fail(ErrorKind::kBadFile, "{}: FP8 tensor '{}' has no weight_scale_inv", source, name);
    }
  }
  return gptq;
}

}  // namespace hadal
