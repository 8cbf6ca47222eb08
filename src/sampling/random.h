// Random numbers without state: each is a pure function of what it is for, so a request gets the
// same draw alone, in any batch, and after its KV was thrown away and recomputed.
#pragma once

#include <array>
#include <cstdint>

namespace hadal {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// What a draw is for. `position` is that of the token being chosen (prompt length for the first).
struct RandomKey {
  uint64_t seed = 0;
  uint32_t prompt_index = 0;  // in a request with several prompts
  uint32_t choice_index = 0;  // in a request with n > 1
  uint32_t position = 0;
};

// Uniform in [0, 1), a multiple of 2^-53. Philox with key = seed (low word first) and counter =
// (position, choice, prompt, 0); the words w0, w1 give ((w0 >> 5) * 2^26 + (w1 >> 6)) / 2^53.
double Uniform(const RandomKey& key);

}  // namespace hadal
