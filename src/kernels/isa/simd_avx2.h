// The vector shim for AVX2 (with FMA and F16C): two ymm registers per 16 lanes. The names, and the
// rules they keep, are those of simd_portable.h. The level avx2vnni differs only in the integer dot
// product, by what the compiler was told it may use.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace hadal {
namespace {  // NOLINT: one copy per ISA level is the point

// How many F32x16 the register file holds: what tiles are sized by.
constexpr int kVectorRegisters = 8;

// From how many places at a time a core reads memory fastest.
constexpr int kStreams = 4;

struct F32x16 {
  __m256 lo, hi;
};
struct I32x16 {
  __m256i lo, hi;
};
struct Mask16 {
  __m256i lo, hi;
};

// --- f32 ---
[[gnu::always_inline]] inline F32x16 Set(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
[[gnu::always_inline]] inline F32x16 Zero() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
[[gnu::always_inline]] inline F32x16 Load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
[[gnu::always_inline]] inline void Store(float* p, F32x16 a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
[[gnu::always_inline]] inline __m256i LanesBelow(int n, int first) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n - first), lane);
}
[[gnu::always_inline]] inline F32x16 LoadPartial(const float* p, int n) {
  return {_mm256_maskload_ps(p, LanesBelow(n, 0)), _mm256_maskload_ps(p + 8, LanesBelow(n, 8))};
}
[[gnu::always_inline]] inline void StorePartial(float* p, F32x16 a, int n) {
  _mm256_maskstore_ps(p, LanesBelow(n, 0), a.lo);
  _mm256_maskstore_ps(p + 8, LanesBelow(n, 8), a.hi);
}
[[gnu::always_inline]] inline F32x16 Add(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
[[gnu::always_inline]] inline F32x16 Sub(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
[[gnu::always_inline]] inline F32x16 Mul(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
[[gnu::always_inline]] inline F32x16 Div(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
[[gnu::always_inline]] inline F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
[[gnu::always_inline]] inline F32x16 Max(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
[[gnu::always_inline]] inline F32x16 Min(F32x16 a, F32x16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}

// --- comparisons ---
[[gnu::always_inline]] inline Mask16 Less(F32x16 a, F32x16 b) {
  return {_mm256_castps_si256(_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
          _mm256_castps_si256(_mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}
[[gnu::always_inline]] inline Mask16 FirstLanes(int n) {
  return {LanesBelow(n, 0), LanesBelow(n, 8)};
}
[[gnu::always_inline]] inline F32x16 Select(Mask16 mask, F32x16 a, F32x16 b) {
  return {_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(mask.lo)),
          _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(mask.hi))};
}

// --- i32 ---
[[gnu::always_inline]] inline I32x16 SetI(int32_t x) {
  return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
[[gnu::always_inline]] inline __m256i LoadRegister(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
[[gnu::always_inline]] inline __m128i LoadHalfRegister(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
[[gnu::always_inline]] inline __m128i LoadQuarterRegister(const void* p) {
  return _mm_loadl_epi64(static_cast<const __m128i*>(p));
}
[[gnu::always_inline]] inline I32x16 LoadI(const int32_t* p) {
  return {LoadRegister(p), LoadRegister(p + 8)};
}
[[gnu::always_inline]] inline void StoreI(int32_t* p, I32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), a.hi);
}
[[gnu::always_inline]] inline I32x16 AddI(I32x16 a, I32x16 b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
[[gnu::always_inline]] inline I32x16 SubI(I32x16 a, I32x16 b) {
  return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
[[gnu::always_inline]] inline I32x16 AndI(I32x16 a, I32x16 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
template <int kBits>
[[gnu::always_inline]] inline I32x16 ShiftLeft(I32x16 a) {
  return {_mm256_slli_epi32(a.lo, kBits), _mm256_slli_epi32(a.hi, kBits)};
}
template <int kBits>
[[gnu::always_inline]] inline I32x16 ShiftRight(I32x16 a) {
  return {_mm256_srli_epi32(a.lo, kBits), _mm256_srli_epi32(a.hi, kBits)};
}
template <int kBits>
[[gnu::always_inline]] inline I32x16 ShiftRightSigned(I32x16 a) {
  return {_mm256_srai_epi32(a.lo, kBits), _mm256_srai_epi32(a.hi, kBits)};
}
[[gnu::always_inline]] inline F32x16 AsF32(I32x16 a) {
  return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)};
}
[[gnu::always_inline]] inline I32x16 AsI32(F32x16 a) {
  return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)};
}
[[gnu::always_inline]] inline F32x16 ToF32(I32x16 a) {
  return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}
// Rounds as MXCSR says, which is to nearest even everywhere in this program.
[[gnu::always_inline]] inline I32x16 ToI32(F32x16 a) {
  return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)};
}

// --- 16-bit floats ---
[[gnu::always_inline]] inline I32x16 LoadU16(const uint16_t* p) {
  return {_mm256_cvtepu16_epi32(LoadHalfRegister(p)),
          _mm256_cvtepu16_epi32(LoadHalfRegister(p + 8))};
}
[[gnu::always_inline]] inline F32x16 LoadBf16(const uint16_t* p) {
  return AsF32(ShiftLeft<16>(LoadU16(p)));
}
[[gnu::always_inline]] inline F32x16 LoadF16(const uint16_t* p) {
  return {_mm256_cvtph_ps(LoadHalfRegister(p)), _mm256_cvtph_ps(LoadHalfRegister(p + 8))};
}
[[gnu::always_inline]] inline __m256i Bf16BitsOf8(__m256 a) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i high = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
  const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  const __m256 nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
  return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(nan));
}
[[gnu::always_inline]] inline I32x16 Bf16Bits(F32x16 a) {
  return {Bf16BitsOf8(a.lo), Bf16BitsOf8(a.hi)};
}
[[gnu::always_inline]] inline void StoreBf16(uint16_t* p, F32x16 a) {
  const I32x16 bits = Bf16Bits(a);
  const __m256i packed = _mm256_packus_epi32(bits.lo, bits.hi);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm256_permute4x64_epi64(packed, _MM_SHUFFLE(3, 1, 2, 0)));
}
[[gnu::always_inline]] inline void LoadBf16Pairs(const uint16_t* p, F32x16& first, F32x16& second) {
  const I32x16 both = {LoadRegister(p), LoadRegister(p + 16)};
  first = AsF32(ShiftLeft<16>(both));
  second = AsF32(AndI(both, SetI(static_cast<int>(0xFFFF0000u))));
}
[[gnu::always_inline]] inline F32x16 LoadS8(const int8_t* p) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(LoadQuarterRegister(p))),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(LoadQuarterRegister(p + 8)))};
}
[[gnu::always_inline]] inline F32x16 LoadU8(const uint8_t* p) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(LoadQuarterRegister(p))),
          _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(LoadQuarterRegister(p + 8)))};
}
[[gnu::always_inline]] inline void StoreS8(int8_t* p, I32x16 a) {
  const I32x16 low = AndI(a, SetI(0xFF));
  const __m256i words =
      _mm256_permute4x64_epi64(_mm256_packus_epi32(low.lo, low.hi), _MM_SHUFFLE(3, 1, 2, 0));
  const __m128i bytes =
      _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}

// --- lanes to one value ---
[[gnu::always_inline]] inline float SumLanes(F32x16 a) {
  const __m256 eight = _mm256_add_ps(a.lo, a.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
[[gnu::always_inline]] inline float MaxLanes(F32x16 a) {
  const __m256 eight = _mm256_max_ps(a.lo, a.hi);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
[[gnu::always_inline]] inline int32_t SumLanesI(I32x16 a) {
  const __m256i eight = _mm256_add_epi32(a.lo, a.hi);
  const __m128i four =
      _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, _MM_SHUFFLE(1, 0, 3, 2)));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, _MM_SHUFFLE(2, 3, 0, 1))));
}

// --- bytes: 16 lanes of 4 ---
struct U8x64 {
  __m256i lo, hi;
};
[[gnu::always_inline]] inline U8x64 LoadBytes(const uint8_t* p) {
  return {LoadRegister(p), LoadRegister(p + 32)};
}
[[gnu::always_inline]] inline U8x64 LowNibbles(U8x64 a) {
  const __m256i mask = _mm256_set1_epi8(0x0F);
  return {_mm256_and_si256(a.lo, mask), _mm256_and_si256(a.hi, mask)};
}
[[gnu::always_inline]] inline U8x64 HighNibbles(U8x64 a) {
  const __m256i mask = _mm256_set1_epi8(0x0F);
  return {_mm256_and_si256(_mm256_srli_epi16(a.lo, 4), mask),
          _mm256_and_si256(_mm256_srli_epi16(a.hi, 4), mask)};
}
[[gnu::always_inline]] inline __m256i BroadcastFourBytes(const void* p) {
  int32_t bytes;
  __builtin_memcpy(&bytes, p, sizeof(bytes));
  return _mm256_set1_epi32(bytes);
}

struct S8Quad {
  __m256i v;
};
[[gnu::always_inline]] inline S8Quad BroadcastQuad(const int8_t* p) {
  return {BroadcastFourBytes(p)};
}

#if defined(__AVXVNNI__)
[[gnu::always_inline]] inline I32x16 DotU8S8(I32x16 acc, U8x64 w, S8Quad a) {
  return {_mm256_dpbusd_avx_epi32(acc.lo, w.lo, a.v), _mm256_dpbusd_avx_epi32(acc.hi, w.hi, a.v)};
}
#else
#define HADAL_NIBBLE_DOTS 1
// 16 lanes of two sums in 16 bits, of even and of odd pairs of columns: 8 * 2 * 15 * 127 < 2^15.
struct I16x32 {
  __m256i lo, hi;
};
[[gnu::always_inline]] inline I16x32 ZeroPairs() {
  return {_mm256_setzero_si256(), _mm256_setzero_si256()};
}
[[gnu::always_inline]] inline I16x32 DotNibbles(I16x32 acc, U8x64 nibbles, S8Quad a) {
  return {_mm256_add_epi16(acc.lo, _mm256_maddubs_epi16(nibbles.lo, a.v)),
          _mm256_add_epi16(acc.hi, _mm256_maddubs_epi16(nibbles.hi, a.v))};
}
[[gnu::always_inline]] inline I32x16 AddPairs(I32x16 acc, I16x32 pairs, int16_t times) {
  const __m256i factor = _mm256_set1_epi16(times);
  return {_mm256_add_epi32(acc.lo, _mm256_madd_epi16(pairs.lo, factor)),
          _mm256_add_epi32(acc.hi, _mm256_madd_epi16(pairs.hi, factor))};
}
#endif

[[gnu::always_inline]] inline void Prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}

}  // namespace
}  // namespace hadal
