// What this processor can do, and the instruction-set level the kernels run at.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hadal {

// Ascending: each level includes those before it.
enum class IsaLevel : int {
  kPortable,
  kAvx2,        // AVX2, FMA, F16C
  kAvx2Vnni,    // + AVX-VNNI
  kAvx512,      // AVX-512 F BW VL DQ
  kAvx512Vnni,  // + AVX512-VNNI
  kAvx512Bf16,  // + AVX512-BF16, in AMD's way (Zen 4)
  kAvx512Amx,   // + AMX-INT8 and AMX-BF16 (tiles)
};

// As in HADAL_ISA: "portable", "avx2", "avx2vnni", "avx512", "avx512vnni", "avx512bf16",
// "avx512amx".
std::string_view Name(IsaLevel level);

// Levels this machine can run, ascending; asks CPUID and the operating system once (on Linux, for
// the use of tiles).
const std::vector<IsaLevel>& SupportedIsaLevels();

// The level to use: HADAL_ISA when set, else the fastest supported one. Throws Error(kUsage) when
// HADAL_ISA names no level or one that this machine lacks.
IsaLevel ChooseIsaLevel();

// "Intel(R) Xeon(R) Processor" or "unknown processor".
std::string CpuModelName();

}  // namespace hadal
