#include "base/cpu_features.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace hadal {
namespace {

constexpr std::array<std::string_view, 7> kNames = {
    "portable", "avx2", "avx2vnni", "avx512", "avx512vnni", "avx512bf16", "avx512amx"};

#if defined(__x86_64__)
struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers Cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);
  return r;
}

// Extended control register 0: which register files the operating system saves.
unsigned EnabledState() {
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

bool IsIntel() {
  return Cpuid(0, 0).c == 0x6C65746E;  // "ntel", the end of "GenuineIntel"
}

bool Has(unsigned reg, int bit) {
  return (reg >> bit & 1) != 0;
}

// Linux saves tiles only for processes that asked for it: "Using XSTATE features in user space
// applications" in its documentation. All threads of the process may use them then.
bool MayUseTiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILE_DATA
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

std::vector<IsaLevel> Detect() {
  std::vector<IsaLevel> levels = {IsaLevel::kPortable};
  const Registers one = Cpuid(1, 0);
  const Registers seven = Cpuid(7, 0);
  const Registers seven_one = Cpuid(7, 1);
  const bool os_saves = Has(one.c, 27);
  const unsigned state = os_saves ? EnabledState() : 0;
  const bool ymm = (state & 0x6) == 0x6;
  const bool zmm = (state & 0xE6) == 0xE6;
  const bool avx2 = ymm && Has(seven.b, 5) && Has(one.c, 12) && Has(one.c, 29);
  const bool avx512 =
      avx2 && zmm && Has(seven.b, 16) && Has(seven.b, 17) && Has(seven.b, 30) && Has(seven.b, 31);
  const bool vnni = avx512 && Has(seven.c, 11);
  if (avx2) levels.push_back(IsaLevel::kAvx2);
  if (avx2 && Has(seven_one.a, 4)) levels.push_back(IsaLevel::kAvx2Vnni);
  if (avx512) levels.push_back(IsaLevel::kAvx512);
  if (vnni) levels.push_back(IsaLevel::kAvx512Vnni);
  const bool bf16 = vnni && Has(seven_one.a, 5);
  if (bf16) levels.push_back(IsaLevel::kAvx512Bf16);
  const bool tiles = Has(seven.d, 22) && Has(seven.d, 24) && Has(seven.d, 25);
  if (bf16 && tiles && (state & 0x60000) == 0x60000 && MayUseTiles()) {
    levels.push_back(IsaLevel::kAvx512Amx);
  }
  return levels;
}
#else
std::vector<IsaLevel> Detect() {
  return {IsaLevel::kPortable};
}
bool IsIntel() {
  return false;
}
#endif

// The last one, but for Intel's processors that have products of bf16 and no tiles: there they do
// half the work of f32 multiply-adds.
IsaLevel FastestIsaLevel() {
  const IsaLevel last = SupportedIsaLevels().back();
  return last == IsaLevel::kAvx512Bf16 && IsIntel() ? IsaLevel::kAvx512Vnni : last;
}

}  // namespace

std::string_view Name(IsaLevel level) {
  return kNames[static_cast<size_t>(level)];
}

const std::vector<IsaLevel>& SupportedIsaLevels() {
  static const std::vector<IsaLevel> levels = Detect();
  return levels;
}

IsaLevel ChooseIsaLevel() {
  const auto& supported = SupportedIsaLevels();
  const char* wanted = std::getenv("HADAL_ISA");
  if (wanted == nullptr || *wanted == '\0') return FastestIsaLevel();
  const auto name = std::find(kNames.begin(), kNames.end(), wanted);
  if (name == kNames.end()) {
    Fail(ErrorKind::kUsage,
         "HADAL_ISA={}: no such level; choose portable, avx2, avx2vnni, avx512, avx512vnni, "
         "avx512bf16 or avx512amx",
         wanted);
  }
  const auto level = static_cast<IsaLevel>(name - kNames.begin());
  if (std::find(supported.begin(), supported.end(), level) == supported.end()) {
    Fail(ErrorKind::kUsage, "HADAL_ISA={}: this processor lacks it; the best here is {}", wanted,
         Name(FastestIsaLevel()));
  }
  return level;
}

std::string CpuModelName() {
#if defined(__x86_64__)
  std::array<unsigned, 12> brand{};
  for (unsigned i = 0; i < 3; ++i) {
    const Registers r = Cpuid(0x80000002 + i, 0);
    brand[i * 4] = r.a;
    brand[i * 4 + 1] = r.b;
    brand[i * 4 + 2] = r.c;
    brand[i * 4 + 3] = r.d;
  }
  char text[49] = {};
  std::memcpy(text, brand.data(), 48);
  const std::string name(text);
  const size_t start = name.find_first_not_of(' ');
  if (start != std::string::npos) return name.substr(start);
#endif
  return "unknown processor";
}

}  // namespace hadal
