// An architecture is a description: how its configuration becomes a ModelSpec, and what its files
// call their tensors. To add one, write archs/x.cc and add its line here and in registry.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/config_reader.h"
#include "formats/gguf.h"
#include "spec/model_spec.h"

namespace hadal {

// The spec, and what decides which tensors a file must hold but nothing about the mathematics.
struct ModelDescription {
  ModelSpec spec;
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool biases_optional = false;  // quantizers write biases for layers that have none
  bool split_kv_b = false;       // MLA: k_b and v_b instead of kv_b
  uint32_t mtp_layers = 0;       // layers after the last one that are left out
};

struct GgufInput {
  const ConfigReader& metadata;  // the keys of the architecture, without its name
  const TensorIndex& tensors;
  uint64_t n_tokens;  // of the vocabulary; 0: none there
};

// Maps a canonical name to the file's; '#' stands for the layer, '%' for the expert. A file name
// without '%' where the canonical one has it: the file stacks the experts in one tensor. Names of
// weights end in ".weight"; a bias has ".bias" there.
struct TensorName {
  std::string_view canonical;
  std::string_view file;
};

struct Architecture {
  std::string_view name;
  std::vector<std::string_view> hf_types;  // config.json's model_type
  std::string_view gguf_type;              // general.architecture; empty: see a sister's
  ModelDescription (*from_hf)(const ConfigReader& config);
  ModelDescription (*from_gguf)(const GgufInput& input);  // null when gguf_type is empty
  std::span<const TensorName> hf_names;                   // beside the common ones (names.h)
};

extern const Architecture kLlama;
extern const Architecture kQwen2;
extern const Architecture kQwen3;
extern const Architecture kQwen2Moe;
extern const Architecture kQwen3Moe;
extern const Architecture kDeepSeek;
extern const Architecture kDeepSeekV2;
extern const Architecture kDeepSeekV3;

// Throw Error(kUnsupported) that lists what is supported.
const Architecture& FindHfArchitecture(std::string_view model_type, const std::string& source);
const Architecture& FindGgufArchitecture(std::string_view type, const std::string& source);

}  // namespace hadal
