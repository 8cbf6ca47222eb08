// Any bytes are one Error or tensors that lie inside the file, also after joining quantized parts.
#include <cstdint>

#include "base/check.h"
#include "base/error.h"
#include "formats/quant_parts.h"
#include "formats/safetensors.h"

namespace {

// The first byte chooses the quantization; the rest is the file.
hadal::Json Config(uint8_t choice) {
  switch (choice % 4) {
    case 0:
      return {
          {"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}}}};
    case 1:
      return {{"quantization_config", {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}}}};
    case 2:
      return {{"quantization_config",
               {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", choice < 128 ? 32 : -1}}}};
    default:
      return hadal::Json::object();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  try {
    hadal::TensorIndex tensors;
    for (hadal::TensorView& view : hadal::ParseSafetensors(bytes, "fuzz")) {
      HADAL_CHECK(view.data.data() >= bytes.data());
      HADAL_CHECK(view.data.data() + view.data.size() <= bytes.data() + bytes.size());
      tensors.emplace(view.name, view);
    }
    hadal::JoinQuantizedParts(Config(data[0]), "fuzz", tensors);
  } catch (const hadal::Error&) {
  }
  return 0;
}
