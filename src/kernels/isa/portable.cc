#include "kernels/isa/simd_portable.h"
// The vectors first, then what is written on them.
#include "kernels/generic/all.inc"
#include "kernels/isa/levels.h"

namespace hadal::internal {

const KernelTable& PortableKernels() {
  static constexpr KernelTable kTable = MakeTable(IsaLevel::kPortable);
  return kTable;
}

}  // namespace hadal::internal
