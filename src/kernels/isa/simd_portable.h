// The vector shim, portable form: 16 lanes as four 4-lane vectors of the compiler.
//
// Every simd_*.h defines the same names, so that an algorithm is written once in kernels/generic/
// and compiled once per ISA level. The whole shim lives in an unnamed namespace: each level's
// translation unit has its own copy and no code of one level can end up in another's.
//
// Rules all levels share:
//   Fma(a, b, c)   a * b + c; fused where the level has it (all but portable)
//   SumLanes       16 -> 8 -> 4 -> 2 -> 1, lane i added to lane i + half
//   DotU8S8        exact in 32 bits for any bytes. Levels without an instruction for it have
//                  HADAL_NIBBLE_DOTS and, exact in 16 bits for up to 8 times, DotNibbles.
//   StoreBf16      round to nearest even, as F32ToBf16 in tensor/half.h
#pragma once

#include <cstdint>

namespace hadal {
namespace {  // NOLINT: one copy per ISA level is the point

// How many F32x16 the register file holds: what tiles are sized by.
constexpr int kVectorRegisters = 4;

// From how many places at a time a core reads memory fastest.
constexpr int kStreams = 4;

typedef float F32x4 __attribute__((vector_size(16)));
typedef int32_t I32x4 __attribute__((vector_size(16)));
typedef uint32_t U32x4 __attribute__((vector_size(16)));

struct F32x16 {
  F32x4 v[4];
};
struct I32x16 {
  I32x4 v[4];
};
// One flag per lane: all bits or none.
struct Mask16 {
  I32x4 v[4];
};

template <typename T, typename P>
[[gnu::always_inline]] inline T LoadAs(const P* from) {
  T value;
  __builtin_memcpy(&value, from, sizeof(T));
  return value;
}
template <typename T, typename P>
[[gnu::always_inline]] inline void StoreAs(P* to, T value) {
  __builtin_memcpy(to, &value, sizeof(T));
}

// --- f32 ---
[[gnu::always_inline]] inline F32x16 Set(float x) {
  const F32x4 v = {x, x, x, x};
  return {{v, v, v, v}};
}
[[gnu::always_inline]] inline F32x16 Zero() {
  return Set(0.0f);
}
[[gnu::always_inline]] inline F32x16 Load(const float* p) {
  return {{LoadAs<F32x4>(p), LoadAs<F32x4>(p + 4), LoadAs<F32x4>(p + 8), LoadAs<F32x4>(p + 12)}};
}
[[gnu::always_inline]] inline void Store(float* p, F32x16 a) {
  for (int i = 0; i < 4; ++i) StoreAs(p + 4 * i, a.v[i]);
}
// The first n lanes (0 <= n <= 16); the others are zero and untouched in memory.
[[gnu::always_inline]] inline F32x16 LoadPartial(const float* p, int n) {
  float lanes[16] = {};
  for (int i = 0; i < n; ++i) lanes[i] = p[i];
  return Load(lanes);
}
[[gnu::always_inline]] inline void StorePartial(float* p, F32x16 a, int n) {
  float lanes[16];
  Store(lanes, a);
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
}
[[gnu::always_inline]] inline F32x16 Add(F32x16 a, F32x16 b) {
  for (int i = 0; i < 4; ++i) a.v[i] = a.v[i] + b.v[i];
  return a;
}
[[gnu::always_inline]] inline F32x16 Sub(F32x16 a, F32x16 b) {
  for (int i = 0; i < 4; ++i) a.v[i] = a.v[i] - b.v[i];
  return a;
}
[[gnu::always_inline]] inline F32x16 Mul(F32x16 a, F32x16 b) {
  for (int i = 0; i < 4; ++i) a.v[i] = a.v[i] * b.v[i];
  return a;
}
[[gnu::always_inline]] inline F32x16 Div(F32x16 a, F32x16 b) {
  for (int i = 0; i < 4; ++i) a.v[i] = a.v[i] / b.v[i];
  return a;
}
[[gnu::always_inline]] inline F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  for (int i = 0; i < 4; ++i) c.v[i] = a.v[i] * b.v[i] + c.v[i];
  return c;
}

// --- comparisons ---
[[gnu::always_inline]] inline Mask16 Less(F32x16 a, F32x16 b) {
  Mask16 m;
  for (int i = 0; i < 4; ++i) m.v[i] = a.v[i] < b.v[i];
  return m;
}
// Lanes 0..n-1 (n may lie outside 0..16).
[[gnu::always_inline]] inline Mask16 FirstLanes(int n) {
  const I32x4 limit = {n, n, n, n};
  Mask16 m;
  for (int i = 0; i < 4; ++i) {
    const I32x4 lane = {4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3};
    m.v[i] = lane < limit;
  }
  return m;
}
// Lane by lane: mask ? a : b.
[[gnu::always_inline]] inline F32x16 Select(Mask16 mask, F32x16 a, F32x16 b) {
  for (int i = 0; i < 4; ++i) {
    a.v[i] = reinterpret_cast<F32x4>((reinterpret_cast<I32x4>(a.v[i]) & mask.v[i]) |
                                     (reinterpret_cast<I32x4>(b.v[i]) & ~mask.v[i]));
  }
  return a;
}
// As the processor does: the second operand where either is NaN.
[[gnu::always_inline]] inline F32x16 Max(F32x16 a, F32x16 b) {
  return Select(Less(b, a), a, b);
}
[[gnu::always_inline]] inline F32x16 Min(F32x16 a, F32x16 b) {
  return Select(Less(a, b), a, b);
}

// --- i32 ---
[[gnu::always_inline]] inline I32x16 SetI(int32_t x) {
  const I32x4 v = {x, x, x, x};
  return {{v, v, v, v}};
}
[[gnu::always_inline]] inline I32x16 LoadI(const int32_t* p) {
  return {{LoadAs<I32x4>(p), LoadAs<I32x4>(p + 4), LoadAs<I32x4>(p + 8), LoadAs<I32x4>(p + 12)}};
}
[[gnu::always_inline]] inline void StoreI(int32_t* p, I32x16 a) {
  for (int i = 0; i < 4; ++i) StoreAs(p + 4 * i, a.v[i]);
}
[[gnu::always_inline]] inline I32x16 AddI(I32x16 a, I32x16 b) {
  for (int i = 0; i < 4; ++i) a.v[i] = a.v[i] + b.v[i];
  return a;
}
[[gnu::always_inline]] inline I32x16 SubI(I32x16 a, I32x16 b) {
  for (int i = 0; i < 4; ++i) a.v[i] = a.v[i] - b.v[i];
  return a;
}
[[gnu::always_inline]] inline I32x16 AndI(I32x16 a, I32x16 b) {
  for (int i = 0; i < 4; ++i) a.v[i] = a.v[i] & b.v[i];
  return a;
}
template <int kBits>
[[gnu::always_inline]] inline I32x16 ShiftLeft(I32x16 a) {
  for (int i = 0; i < 4; ++i) a.v[i] = a.v[i] << kBits;
  return a;
}
// Logical: zeros come in from above.
template <int kBits>
[[gnu::always_inline]] inline I32x16 ShiftRight(I32x16 a) {
  for (int i = 0; i < 4; ++i) {
    a.v[i] = reinterpret_cast<I32x4>(reinterpret_cast<U32x4>(a.v[i]) >> kBits);
  }
  return a;
}
// Arithmetic: the sign comes in from above.
template <int kBits>
[[gnu::always_inline]] inline I32x16 ShiftRightSigned(I32x16 a) {
  for (int i = 0; i < 4; ++i) a.v[i] = a.v[i] >> kBits;
  return a;
}
[[gnu::always_inline]] inline F32x16 AsF32(I32x16 a) {
  F32x16 r;
  for (int i = 0; i < 4; ++i) r.v[i] = reinterpret_cast<F32x4>(a.v[i]);
  return r;
}
[[gnu::always_inline]] inline I32x16 AsI32(F32x16 a) {
  I32x16 r;
  for (int i = 0; i < 4; ++i) r.v[i] = reinterpret_cast<I32x4>(a.v[i]);
  return r;
}
[[gnu::always_inline]] inline F32x16 ToF32(I32x16 a) {
  F32x16 r;
  for (int i = 0; i < 4; ++i) r.v[i] = __builtin_convertvector(a.v[i], F32x4);
  return r;
}
// Round to nearest even. Requires |a| < 2^22.
[[gnu::always_inline]] inline I32x16 ToI32(F32x16 a) {
  const F32x16 magic = Set(12582912.0f);  // 1.5 * 2^23: the sum's low mantissa bits are the integer
  return SubI(AsI32(Add(a, magic)), AsI32(magic));
}

// --- 16-bit floats ---
[[gnu::always_inline]] inline I32x16 LoadU16(const uint16_t* p) {
  I32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i / 4][i % 4] = p[i];
  return r;
}
[[gnu::always_inline]] inline F32x16 LoadBf16(const uint16_t* p) {
  return AsF32(ShiftLeft<16>(LoadU16(p)));
}
[[gnu::always_inline]] inline F32x16 LoadF16(const uint16_t* p) {
  const I32x16 bits = LoadU16(p);
  F32x16 out;
  for (int i = 0; i < 4; ++i) {
    const I32x4 sign = (bits.v[i] & 0x8000) << 16;
    const I32x4 rest = (bits.v[i] & 0x7FFF) << 13;
    // Widening by a multiplication makes subnormals right; infinities and NaNs need the top
    // exponent back.
    const F32x4 scaled = reinterpret_cast<F32x4>(rest) * 0x1p112f;
    const I32x4 special = rest >= (0x7C00 << 13);
    out.v[i] =
        reinterpret_cast<F32x4>(reinterpret_cast<I32x4>(scaled) | sign | (special & 0x7F800000));
  }
  return out;
}
[[gnu::always_inline]] inline I32x16 Bf16Bits(F32x16 a) {
  I32x16 r;
  for (int i = 0; i < 4; ++i) {
    const U32x4 bits = reinterpret_cast<U32x4>(a.v[i]);
    const U32x4 rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    const U32x4 quiet = bits >> 16 | 0x40;
    const U32x4 nan = reinterpret_cast<U32x4>((bits & 0x7FFFFFFF) > 0x7F800000);
    r.v[i] = reinterpret_cast<I32x4>((nan & quiet) | (~nan & rounded));
  }
  return r;
}
[[gnu::always_inline]] inline void StoreBf16(uint16_t* p, F32x16 a) {
  const I32x16 bits = Bf16Bits(a);
  for (int i = 0; i < 16; ++i) p[i] = static_cast<uint16_t>(bits.v[i / 4][i % 4]);
}
// 16 pairs [16][2]: the first of each pair, the second of each pair.
[[gnu::always_inline]] inline void LoadBf16Pairs(const uint16_t* p, F32x16& first, F32x16& second) {
  for (int i = 0; i < 4; ++i) {
    const U32x4 both = LoadAs<U32x4>(p + 8 * i);
    first.v[i] = reinterpret_cast<F32x4>(both << 16);
    second.v[i] = reinterpret_cast<F32x4>(both & 0xFFFF0000u);
  }
}
// Integers in memory to f32 lanes, exact.
[[gnu::always_inline]] inline F32x16 LoadS8(const int8_t* p) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i / 4][i % 4] = static_cast<float>(p[i]);
  return r;
}
[[gnu::always_inline]] inline F32x16 LoadU8(const uint8_t* p) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i / 4][i % 4] = static_cast<float>(p[i]);
  return r;
}
// The low byte of each lane.
[[gnu::always_inline]] inline void StoreS8(int8_t* p, I32x16 a) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(a.v[i / 4][i % 4]);
}

// --- lanes to one value ---
[[gnu::always_inline]] inline float SumLanes(F32x16 a) {
  const F32x4 four = (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]);
  return (four[0] + four[2]) + (four[1] + four[3]);
}
[[gnu::always_inline]] inline float MaxLanes(F32x16 a) {
  float best = a.v[0][0];
  for (int i = 1; i < 16; ++i) {
    const float x = a.v[i / 4][i % 4];
    best = best > x ? best : x;
  }
  return best;
}
[[gnu::always_inline]] inline int32_t SumLanesI(I32x16 a) {
  const I32x4 four = (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]);
  return four[0] + four[1] + four[2] + four[3];
}

// --- bytes: 16 lanes of 4 ---
typedef uint8_t U8x16 __attribute__((vector_size(16)));
typedef int16_t I16x8 __attribute__((vector_size(16)));
struct U8x64 {
  U8x16 v[4];
};
// The same 4 signed bytes in every lane.
struct S8Quad {
  int32_t v[4];
};
[[gnu::always_inline]] inline U8x64 LoadBytes(const uint8_t* p) {
  return {{LoadAs<U8x16>(p), LoadAs<U8x16>(p + 16), LoadAs<U8x16>(p + 32), LoadAs<U8x16>(p + 48)}};
}
[[gnu::always_inline]] inline U8x64 LowNibbles(U8x64 a) {
  for (int i = 0; i < 4; ++i) a.v[i] = a.v[i] & 0x0F;
  return a;
}
[[gnu::always_inline]] inline U8x64 HighNibbles(U8x64 a) {
  for (int i = 0; i < 4; ++i) a.v[i] = a.v[i] >> 4;
  return a;
}
[[gnu::always_inline]] inline S8Quad BroadcastQuad(const int8_t* p) {
  return {{p[0], p[1], p[2], p[3]}};
}
// acc[lane] += sum over 4 bytes of weight * activation.
[[gnu::always_inline]] inline I32x16 DotU8S8(I32x16 acc, U8x64 w, S8Quad a) {
  for (int i = 0; i < 4; ++i) {
    const U32x4 bytes = reinterpret_cast<U32x4>(w.v[i]);
    acc.v[i] += reinterpret_cast<I32x4>(bytes & 0xFF) * a.v[0] +
                reinterpret_cast<I32x4>(bytes >> 8 & 0xFF) * a.v[1] +
                reinterpret_cast<I32x4>(bytes >> 16 & 0xFF) * a.v[2] +
                reinterpret_cast<I32x4>(bytes >> 24) * a.v[3];
  }
  return acc;
}

[[gnu::always_inline]] inline void Prefetch(const void* p) {
  __builtin_prefetch(p, 0, 3);
}

}  // namespace
}  // namespace hadal
