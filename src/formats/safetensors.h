// One safetensors file: a JSON directory and the tensors' bytes.
// Format: the README of the safetensors project.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "formats/gguf.h"
#include "tensor/tensor_view.h"

namespace hadal {

// The tensors in the order of their data. `bytes` must outlive the views. Checks the header's
// length, types, shapes against byte ranges, that ranges neither overlap nor leave holes, and that
// names are unique; with kAllow the data may end early. Throws Error(kBadFile | kUnsupported) that
// begins with `source`.
std::vector<TensorView> ParseSafetensors(std::span<const std::byte> bytes,
                                         const std::string& source,
                                         MissingData missing = MissingData::kRefuse);

}  // namespace hadal
