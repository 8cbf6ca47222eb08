#pragma once

namespace hadal {

struct ElementwiseKernels {};

}  // namespace hadal
