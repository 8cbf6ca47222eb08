// The vector shim for AVX-512 (F BW VL DQ): one zmm register per 16 lanes. The names, and the rules
// they keep, are those of simd_portable.h. The level avx512vnni differs only in the integer
// dot products, by what the compiler was told it may use; avx512bf16, which is AMD's from Zen 4 on,
// in products of bf16 as well. (On Sapphire and Emerald Rapids vdpbf16ps does half the work of f32
// multiply-adds in the same time.)
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace hadal {
namespace {  // NOLINT: one copy per ISA level is the point

// How many F32x16 the register file holds: what tiles are sized by.
constexpr int kVectorRegisters = 32;

#if defined(__AVX512BF16__) && !defined(__AMX_BF16__)
#define HADAL_BF16_DOTS 1
#endif

// From how many places at a time a core reads memory fastest: Zen 4 from one, Sapphire Rapids from
// four.
#if defined(HADAL_BF16_DOTS)
constexpr int kStreams = 1;
#else
constexpr int kStreams = 4;
#endif

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};
struct Mask16 {
  __mmask16 v;
};

// --- f32 ---
[[gnu::always_inline]] inline F32x16 Set(float x) {
  return {_mm512_set1_ps(x)};
}
[[gnu::always_inline]] inline F32x16 Zero() {
  return {_mm512_setzero_ps()};
}
[[gnu::always_inline]] inline F32x16 Load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
[[gnu::always_inline]] inline void Store(float* p, F32x16 a) {
  _mm512_storeu_ps(p, a.v);
}
[[gnu::always_inline]] inline __mmask16 LowBits(int n) {
  return static_cast<__mmask16>((1u << n) - 1);
}
[[gnu::always_inline]] inline F32x16 LoadPartial(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(LowBits(n), p)};
}
[[gnu::always_inline]] inline void StorePartial(float* p, F32x16 a, int n) {
  _mm512_mask_storeu_ps(p, LowBits(n), a.v);
}
[[gnu::always_inline]] inline F32x16 Add(F32x16 a, F32x16 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
[[gnu::always_inline]] inline F32x16 Sub(F32x16 a, F32x16 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
[[gnu::always_inline]] inline F32x16 Mul(F32x16 a, F32x16 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
[[gnu::always_inline]] inline F32x16 Div(F32x16 a, F32x16 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
[[gnu::always_inline]] inline F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
[[gnu::always_inline]] inline F32x16 Max(F32x16 a, F32x16 b) {
  return {_mm512_max_ps(a.v, b.v)};
}
[[gnu::always_inline]] inline F32x16 Min(F32x16 a, F32x16 b) {
  return {_mm512_min_ps(a.v, b.v)};
}

// --- comparisons ---
[[gnu::always_inline]] inline Mask16 Less(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)};
}
[[gnu::always_inline]] inline Mask16 FirstLanes(int n) {
  return {LowBits(n < 0 ? 0 : n > 16 ? 16 : n)};
}
[[gnu::always_inline]] inline F32x16 Select(Mask16 mask, F32x16 a, F32x16 b) {
  return {_mm512_mask_blend_ps(mask.v, b.v, a.v)};
}

// --- i32 ---
[[gnu::always_inline]] inline I32x16 SetI(int32_t x) {
  return {_mm512_set1_epi32(x)};
}
[[gnu::always_inline]] inline I32x16 LoadI(const int32_t* p) {
  return {_mm512_loadu_si512(p)};
}
[[gnu::always_inline]] inline void StoreI(int32_t* p, I32x16 a) {
  _mm512_storeu_si512(p, a.v);
}
[[gnu::always_inline]] inline I32x16 AddI(I32x16 a, I32x16 b) {
  return {_mm512_add_epi32(a.v, b.v)};
}
[[gnu::always_inline]] inline I32x16 SubI(I32x16 a, I32x16 b) {
  return {_mm512_sub_epi32(a.v, b.v)};
}
[[gnu::always_inline]] inline I32x16 AndI(I32x16 a, I32x16 b) {
  return {_mm512_and_si512(a.v, b.v)};
}
template <int kBits>
[[gnu::always_inline]] inline I32x16 ShiftLeft(I32x16 a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
template <int kBits>
[[gnu::always_inline]] inline I32x16 ShiftRight(I32x16 a) {
  return {_mm512_srli_epi32(a.v, kBits)};
}
template <int kBits>
[[gnu::always_inline]] inline I32x16 ShiftRightSigned(I32x16 a) {
  return {_mm512_srai_epi32(a.v, kBits)};
}
[[gnu::always_inline]] inline F32x16 AsF32(I32x16 a) {
  return {_mm512_castsi512_ps(a.v)};
}
[[gnu::always_inline]] inline I32x16 AsI32(F32x16 a) {
  return {_mm512_castps_si512(a.v)};
}
[[gnu::always_inline]] inline F32x16 ToF32(I32x16 a) {
  return {_mm512_cvtepi32_ps(a.v)};
}
[[gnu::always_inline]] inline I32x16 ToI32(F32x16 a) {
  return {_mm512_cvt_roundps_epi32(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}

[[gnu::always_inline]] inline __m512i BroadcastFourBytes(const void* p) {
  int32_t bytes;
  __builtin_memcpy(&bytes, p, sizeof(bytes));
  return _mm512_set1_epi32(bytes);
}

// --- 16-bit floats ---
[[gnu::always_inline]] inline __m256i LoadHalfRegister(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
[[gnu::always_inline]] inline I32x16 LoadU16(const uint16_t* p) {
  return {_mm512_cvtepu16_epi32(LoadHalfRegister(p))};
}
[[gnu::always_inline]] inline F32x16 LoadBf16(const uint16_t* p) {
  return AsF32(ShiftLeft<16>(LoadU16(p)));
}
[[gnu::always_inline]] inline F32x16 LoadF16(const uint16_t* p) {
  return {_mm512_cvtph_ps(LoadHalfRegister(p))};
}
// vcvtneps2bf16 would flush subnormals; integer arithmetic keeps the definition.
[[gnu::always_inline]] inline I32x16 Bf16Bits(F32x16 a) {
  const __m512i bits = _mm512_castps_si512(a.v);
  const __m512i high = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
  const __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
  const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  return {_mm512_mask_blend_epi32(nan, rounded, quiet)};
}
[[gnu::always_inline]] inline void StoreBf16(uint16_t* p, F32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(Bf16Bits(a).v));
}
[[gnu::always_inline]] inline void LoadBf16Pairs(const uint16_t* p, F32x16& first, F32x16& second) {
  const __m512i both = _mm512_loadu_si512(p);
  first.v = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
  second.v =
      _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(static_cast<int>(0xFFFF0000u))));
}
#if defined(HADAL_BF16_DOTS)
// 16 lanes of two.
struct Bf16x32 {
  __m512bh v;
};
[[gnu::always_inline]] inline Bf16x32 LoadBf16x32(const void* p) {
  return {reinterpret_cast<__m512bh>(_mm512_loadu_si512(p))};
}
[[gnu::always_inline]] inline Bf16x32 BroadcastBf16Pair(const void* p) {
  return {reinterpret_cast<__m512bh>(BroadcastFourBytes(p))};
}
// acc + the products of a lane's two; subnormals count as zero.
[[gnu::always_inline]] inline F32x16 DotBf16(F32x16 acc, Bf16x32 a, Bf16x32 b) {
  return {_mm512_dpbf16_ps(acc.v, a.v, b.v)};
}
#endif
[[gnu::always_inline]] inline F32x16 LoadS8(const int8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
}
[[gnu::always_inline]] inline F32x16 LoadU8(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes))};
}
[[gnu::always_inline]] inline void StoreS8(int8_t* p, I32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}

// --- lanes to one value ---
[[gnu::always_inline]] inline float SumLanes(F32x16 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
[[gnu::always_inline]] inline float MaxLanes(F32x16 a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
[[gnu::always_inline]] inline int32_t SumLanesI(I32x16 a) {
  return _mm512_reduce_add_epi32(a.v);
}

// --- bytes: 16 lanes of 4 ---
struct U8x64 {
  __m512i v;
};
[[gnu::always_inline]] inline U8x64 LoadBytes(const uint8_t* p) {
  return {_mm512_loadu_si512(p)};
}
[[gnu::always_inline]] inline U8x64 LowNibbles(U8x64 a) {
  return {_mm512_and_si512(a.v, _mm512_set1_epi8(0x0F))};
}
[[gnu::always_inline]] inline U8x64 HighNibbles(U8x64 a) {
  return {_mm512_and_si512(_mm512_srli_epi16(a.v, 4), _mm512_set1_epi8(0x0F))};
}

struct S8Quad {
  __m512i v;
};
[[gnu::always_inline]] inline S8Quad BroadcastQuad(const int8_t* p) {
  return {BroadcastFourBytes(p)};
}

#if defined(__AVX512VNNI__)
[[gnu::always_inline]] inline I32x16 DotU8S8(I32x16 acc, U8x64 w, S8Quad a) {
  return {_mm512_dpbusd_epi32(acc.v, w.v, a.v)};
}
#else
#define HADAL_NIBBLE_DOTS 1
// 16 lanes of two sums in 16 bits, of even and of odd pairs of columns: 8 * 2 * 15 * 127 < 2^15.
struct I16x32 {
  __m512i v;
};
[[gnu::always_inline]] inline I16x32 ZeroPairs() {
  return {_mm512_setzero_si512()};
}
[[gnu::always_inline]] inline I16x32 DotNibbles(I16x32 acc, U8x64 nibbles, S8Quad a) {
  return {_mm512_add_epi16(acc.v, _mm512_maddubs_epi16(nibbles.v, a.v))};
}
[[gnu::always_inline]] inline I32x16 AddPairs(I32x16 acc, I16x32 pairs, int16_t times) {
  return {_mm512_add_epi32(acc.v, _mm512_madd_epi16(pairs.v, _mm512_set1_epi16(times)))};
}
#endif

[[gnu::always_inline]] inline void Prefetch(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
}

}  // namespace
}  // namespace hadal
