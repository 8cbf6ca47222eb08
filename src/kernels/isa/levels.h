// The table of each ISA level: the only symbols that isa/*.cc export.
#pragma once

#include "kernels/kernels.h"

namespace hadal::internal {

const KernelTable& PortableKernels();
#if defined(__x86_64__)
const KernelTable& Avx2Kernels();
const KernelTable& Avx2VnniKernels();
const KernelTable& Avx512Kernels();
const KernelTable& Avx512VnniKernels();
const KernelTable& Avx512Bf16Kernels();
const KernelTable& Avx512AmxKernels();
#endif

}  // namespace hadal::internal
