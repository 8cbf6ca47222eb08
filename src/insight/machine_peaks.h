// What this machine can do at most right now: the denominators of "percent of peak".
#pragma once

#include "base/cpu_features.h"

namespace hadal {

struct MachinePeaks {
  double read_gbs = 0;     // memory read by all threads, GB/s (10^9 bytes)
  double bf16_gflops = 0;  // what BF16 weights take: f32 multiply-adds; on tiles, pairs
  double int8_gops = 0;    // u8 x s8 dot products
};

// Takes about `seconds`; allocates 512 MiB for the read test and frees it.
// Throws Error(kResource) when that memory is not to be had.
MachinePeaks MeasurePeaks(int n_threads, IsaLevel level, double seconds = 1.5);

}  // namespace hadal
