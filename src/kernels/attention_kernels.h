#pragma once

namespace hadal {

struct AttentionKernels {};

}  // namespace hadal
