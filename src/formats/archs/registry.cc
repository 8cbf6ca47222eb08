#include <algorithm>
#include <array>

#include "base/error.h"
#include "formats/archs/arch.h"

namespace hadal {
namespace {

constexpr std::array kArchitectures = {
    &kLlama, &kQwen2, &kQwen3, &kQwen2Moe, &kQwen3Moe, &kDeepSeek, &kDeepSeekV2, &kDeepSeekV3,
};

}  // namespace

const Architecture& FindHfArchitecture(std::string_view model_type, const std::string& source) {
  std::string known;
  for (const Architecture* architecture : kArchitectures) {
    for (const std::string_view type : architecture->hf_types) {
      if (type == model_type) return *architecture;
      known += fmt::format("{}{}", known.empty() ? "" : ", ", type);
    }
  }
  Fail(ErrorKind::kUnsupported, "{}: model_type '{}' is not supported; supported are {}", source,
       model_type, known);
}

const Architecture& FindGgufArchitecture(std::string_view type, const std::string& source) {
  std::string known;
  for (const Architecture* architecture : kArchitectures) {
    if (architecture->gguf_type.empty()) continue;
    if (architecture->gguf_type == type) return *architecture;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", architecture->gguf_type);
  }
  Fail(ErrorKind::kUnsupported, "{}: architecture '{}' is not supported; supported are {}", source,
       type, known);
}

}  // namespace hadal
