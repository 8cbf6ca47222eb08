// The one dispatch table. Algorithms are written once in kernels/generic/*.inc on 16-lane vectors
// (kernels/isa/simd_*.h) and compiled once per ISA level; a backend asks for its level's table at
// start and calls through it.
//
// Kernels know raw pointers alone: no backend types, no allocation, no threads. All are thread-safe
// on disjoint outputs.
#pragma once

#include "base/cpu_features.h"
#include "kernels/attention_kernels.h"
#include "kernels/elementwise_kernels.h"
#include "kernels/linear_kernels.h"
#include "kernels/probe_kernels.h"
#include "kernels/rope_kernels.h"
#include "tensor/dtype.h"

namespace hadal {

struct KernelTable {
  IsaLevel level;
  LinearKernels linear;
  ElementwiseKernels elementwise;
  RopeKernels rope;
  AttentionKernels attention;
  ProbeKernels probe;
};

// `level` must be one of SupportedIsaLevels().
const KernelTable& GetKernels(IsaLevel level);

// The kernels for a KV cache of this type: f32, bf16, i8 or f8_e4m3.
const AttentionTileKernels& TileKernels(const AttentionKernels& kernels, DType kv_type);

}  // namespace hadal
