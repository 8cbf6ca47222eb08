// Tile registers (AMX): eight of up to 16 rows of 64 bytes. A level that has them includes this
// after its shim. The compilers' own intrinsics do not tell the optimiser which memory they read
// and write, hence the assembler.
#pragma once

// Compilers name their own macros differently.
#define HADAL_TILES 1

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace hadal {
namespace {  // NOLINT: one copy per ISA level is the point

constexpr uint32_t kTileRows = 16;

// As the processor reads it: Intel's manual, "LDTILECFG".
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void Set(int tile, uint32_t n_rows, uint32_t n_bytes) {
    rows[tile] = static_cast<uint8_t>(n_rows);
    row_bytes[tile] = static_cast<uint16_t>(n_bytes);
  }
};

// Zeroes all tiles. They stay in use, and make switches of threads slower, until ReleaseTiles().
[[gnu::always_inline]] inline void ShapeTiles(const TileShapes& shapes) {
  __asm__ volatile("ldtilecfg %0" : : "m"(shapes) : "memory");
}
[[gnu::always_inline]] inline void ReleaseTiles() {
  __asm__ volatile("tilerelease" : : : "memory");
}
template <int kTile>
[[gnu::always_inline]] inline void ZeroTile() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
template <int kTile>
[[gnu::always_inline]] inline void LoadTile(const void* rows, size_t stride) {
  __asm__ volatile("tileloadd (%1,%2,1), %%tmm%c0"
                   :
                   : "i"(kTile), "r"(rows), "r"(stride)
                   : "memory");
}
template <int kTile>
[[gnu::always_inline]] inline void StoreTile(void* rows, size_t stride) {
  __asm__ volatile("tilestored %%tmm%c0, (%1,%2,1)"
                   :
                   : "i"(kTile), "r"(rows), "r"(stride)
                   : "memory");
}
// Calls body(first, n) for groups of up to kTileRows rows, after shape(n) where tiles had another
// number of rows; `shaped` is how many they have, 0 at first.
template <typename Shape, typename Body>
[[gnu::always_inline]] inline void ForTileRows(uint32_t n_rows, uint32_t& shaped, Shape&& shape,
                                               Body&& body) {
  for (uint32_t first = 0; first < n_rows; first += kTileRows) {
    const uint32_t n = n_rows - first < kTileRows ? n_rows - first : kTileRows;
    if (n != shaped) shape(shaped = n);
    body(first, n);
  }
}

// C[m][n] += sum over pairs p of A[m][2p] * B[p][n][0] and A[m][2p + 1] * B[p][n][1]: A holds rows
// of bf16, B 16 lanes of pairs, C f32. Subnormal numbers count as zero.
template <int kC, int kA, int kB>
[[gnu::always_inline]] inline void MultiplyBf16Tiles() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
}

// The same for four bytes at a time and sums in int32; bytes of A are signed, those of B or not.
template <int kC, int kA, int kB, bool kSignedB>
[[gnu::always_inline]] inline void MultiplyByteTiles() {
  if constexpr (kSignedB) {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  } else {
    __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
}

[[gnu::always_inline]] inline void StoreBytes(uint8_t* p, U8x64 a) {
  _mm512_storeu_si512(p, a.v);
}
[[gnu::always_inline]] inline U8x64 SetBytes(uint8_t x) {
  return {_mm512_set1_epi8(static_cast<char>(x))};
}
[[gnu::always_inline]] inline U8x64 Less(U8x64 a, U8x64 b) {
  return {_mm512_sub_epi8(a.v, b.v)};
}

[[gnu::always_inline]] inline void PrefetchForWriting(const void* p) {
  __builtin_prefetch(p, 1);
}
// Into the second-level cache.
[[gnu::always_inline]] inline void PrefetchFar(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
}

}  // namespace
}  // namespace hadal
