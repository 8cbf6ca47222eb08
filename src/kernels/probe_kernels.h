// What the machine can do at most with the instructions the kernels use: the denominators of every
// "percent of peak".
#pragma once

#include <cstddef>
#include <cstdint>

namespace hadal {

struct ProbeKernels {
  // Reads n bytes (a multiple of 256) in as many interleaved streams as are fastest; returns a
  // value that depends on all of them.
  float (*read)(const uint8_t* data, size_t n) = nullptr;
  // Runs `rounds` rounds of independent u8 x s8 dot products, in registers; returns a value that
  // depends on all of them. int8_ops: multiplications and additions of one round.
  float (*int8_dot)(uint64_t rounds) = nullptr;
  // The same in f32 multiply-adds.
  float (*float_dot)(uint64_t rounds) = nullptr;
  // The same as BF16 panels are multiplied: with tiles, pairs of activations that count once;
  // with products of bf16, those; else f32 multiply-adds.
  float (*bf16_dot)(uint64_t rounds) = nullptr;
  uint64_t int8_ops = 0;
  uint64_t float_ops = 0;
  uint64_t bf16_ops = 0;
};

}  // namespace hadal
