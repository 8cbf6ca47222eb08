// The elementwise ops of backend.h on threads. Rows are independent; what one row gives does not
// depend on which thread has it.
#pragma once

#include "backend/backend.h"
#include "base/thread_pool.h"
#include "kernels/elementwise_kernels.h"

namespace hadal {

// `weight`: [x.cols].
void CpuRmsNorm(ThreadPool& pool, const ElementwiseKernels& kernels, Tensor x, Tensor add,
                const float* weight, float eps, Tensor out);
void CpuGlu(ThreadPool& pool, const ElementwiseKernels& kernels, Tensor gate, Tensor up,
            Tensor out);
void CpuAddScaled(ThreadPool& pool, const ElementwiseKernels& kernels, Tensor x, Tensor y,
                  Tensor gate);

}  // namespace hadal
