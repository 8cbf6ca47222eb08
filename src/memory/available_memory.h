// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace hadal {

struct AvailableMemory {
  uint64_t bytes = 0;
  std::string limited_by;  // "the machine" or "the control group /a/b", for messages
};

// The smallest of MemAvailable and, for every control group (v1 or v2) that this process is in, its
// limit less what it uses; file pages that the kernel can drop do not count as used.
// `root` stands in front of /proc and /sys. Throws Error(kIo) when /proc/meminfo cannot be read.
AvailableMemory ReadAvailableMemory(const std::filesystem::path& root = "/");

// Memory that this process has taken already and no file stands behind (RssAnon), in bytes; 0 when
// the system does not say.
uint64_t AnonymousBytes(const std::filesystem::path& root = "/");

}  // namespace hadal
