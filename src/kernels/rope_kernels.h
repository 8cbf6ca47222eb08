#pragma once

namespace hadal {

struct RopeKernels {};

}  // namespace hadal
