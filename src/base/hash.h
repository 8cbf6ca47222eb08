// 64-bit content hashes (XXH3). Not for secrets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hadal {

uint64_t Hash64(std::span<const std::byte> bytes, uint64_t seed = 0);

}  // namespace hadal
