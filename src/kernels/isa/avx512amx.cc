#if defined(__x86_64__)
#include "kernels/isa/simd_avx512.h"
#include "kernels/isa/tiles_amx.h"
// The vectors first, then what is written on them.
#include "kernels/generic/all.inc"
#include "kernels/isa/levels.h"

namespace hadal::internal {

const KernelTable& Avx512AmxKernels() {
  static constexpr KernelTable kTable = MakeTable(IsaLevel::kAvx512Amx);
  return kTable;
}

}  // namespace hadal::internal
#endif  // __x86_64__
