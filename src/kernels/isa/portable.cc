#include "kernels/generic/all.inc"
#include "kernels/isa/levels.h"
#include "kernels/isa/simd_portable.h"

namespace hadal::internal {

const KernelTable& PortableKernels() {
  static constexpr KernelTable kTable = MakeTable(IsaLevel::kPortable);
  return kTable;
}

}  // namespace hadal::internal
