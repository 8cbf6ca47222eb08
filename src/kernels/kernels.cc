#include "kernels/kernels.h"

#include "base/check.h"
#include "kernels/isa/levels.h"

namespace hadal {

const KernelTable& GetKernels(IsaLevel level) {
  switch (level) {
    case IsaLevel::kPortable:
      return internal::PortableKernels();
#if defined(__x86_64__)
    case IsaLevel::kAvx2:
      return internal::Avx2Kernels();
    case IsaLevel::kAvx2Vnni:
      return internal::Avx2VnniKernels();
    case IsaLevel::kAvx512:
      return internal::Avx512Kernels();
    case IsaLevel::kAvx512Vnni:
      return internal::Avx512VnniKernels();
    case IsaLevel::kAvx512Bf16:
      return internal::Avx512Bf16Kernels();
    case IsaLevel::kAvx512Amx:
      return internal::Avx512AmxKernels();
#endif
    default:
      break;
  }
  HADAL_CHECK(!"no kernels for this level");
  return internal::PortableKernels();
}

const AttentionTileKernels& TileKernels(const AttentionKernels& kernels, DType kv_type) {
  switch (kv_type) {
    case DType::kF32:
      return kernels.f32;
    case DType::kI8:
      return kernels.int8;
    case DType::kF8E4M3:
      return kernels.fp8;
    default:
      HADAL_CHECK(kv_type == DType::kBF16);
      return kernels.bf16;
  }
}

}  // namespace hadal
