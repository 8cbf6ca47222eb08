#if defined(__x86_64__)
#include "kernels/isa/simd_avx2.h"
// The vectors first, then what is written on them.
#include "kernels/generic/all.inc"
#include "kernels/isa/levels.h"

namespace hadal::internal {

const KernelTable& Avx2Kernels() {
  static constexpr KernelTable kTable = MakeTable(IsaLevel::kAvx2);
  return kTable;
}

}  // namespace hadal::internal
#endif  // __x86_64__
