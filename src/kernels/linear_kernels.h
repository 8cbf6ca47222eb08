#pragma once

namespace hadal {

struct LinearKernels {};

}  // namespace hadal
