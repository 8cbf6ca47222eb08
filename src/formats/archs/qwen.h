// What the four Qwen architectures share.
#pragma once

#include "formats/archs/common.h"

namespace hadal {

// Everything but experts, norms of q and k, and biases. `fixed_head_dim`: see GqaFromHf.
ModelDescription QwenFromHf(const ConfigReader& config, bool fixed_head_dim);
ModelDescription QwenFromGguf(const GgufInput& input);

}  // namespace hadal
