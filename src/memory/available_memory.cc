#include "memory/available_memory.h"

#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/error.h"

namespace hadal {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> ReadWhole(const fs::path& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// "max" and anything else that is no number gives nothing.
std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

std::optional<uint64_t> ReadNumber(const fs::path& path) {
  const std::optional<std::string> text = ReadWhole(path);
  return text ? ParseNumber(*text) : std::nullopt;
}

// The number after `key` and blanks at the beginning of a line.
std::optional<uint64_t> FindField(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const size_t digits = line.find_first_not_of(" \t", key.size());
    if (digits != std::string::npos) return ParseNumber(std::string_view(line).substr(digits));
  }
  return std::nullopt;
}

struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* droppable;  // in memory.stat
};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file "};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file "};

std::optional<uint64_t> GroupAvailable(const fs::path& group, const GroupFiles& files) {
  const std::optional<uint64_t> limit = ReadNumber(group / files.limit);
  const std::optional<uint64_t> usage = ReadNumber(group / files.usage);
  if (!limit || !usage) return std::nullopt;
  const std::optional<std::string> stat = ReadWhole(group / "memory.stat");
  const uint64_t droppable = stat ? FindField(*stat, files.droppable).value_or(0) : 0;
  const uint64_t used = *usage > droppable ? *usage - droppable : 0;
  return *limit > used ? *limit - used : 0;
}

// This group and those it lies in: each has a limit of its own. A process in a container sees its
// group as "/" or under a path that is not there; its limit then stands at the mount's top.
void LimitByGroups(const fs::path& mount, std::string group, const GroupFiles& files,
                   AvailableMemory& available) {
  for (;;) {
    const fs::path folder = mount / group.substr(group.find_first_not_of('/') == std::string::npos
                                                     ? group.size()
                                                     : group.find_first_not_of('/'));
    const std::optional<uint64_t> bytes = GroupAvailable(folder, files);
    if (bytes && *bytes < available.bytes) {
      available = {*bytes, "the control group " + (group.empty() ? "/" : group)};
    }
    if (group.empty() || group == "/") return;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

}  // namespace

AvailableMemory ReadAvailableMemory(const fs::path& root) {
  const std::optional<std::string> info = ReadWhole(root / "proc/meminfo");
  const std::optional<uint64_t> kib = info ? FindField(*info, "MemAvailable:") : std::nullopt;
  if (!kib)
    Fail(ErrorKind::kIo, "cannot read MemAvailable from {}", (root / "proc/meminfo").string());
  AvailableMemory available{*kib * 1024, "the machine"};

  const std::optional<std::string> groups = ReadWhole(root / "proc/self/cgroup");
  std::istringstream lines(groups.value_or(""));
  // "0::/path" is version 2; "7:memory:/path" is version 1.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") {
      LimitByGroups(root / "sys/fs/cgroup", group, kVersion2, available);
    } else if (controllers.find(",memory,") != std::string::npos) {
      LimitByGroups(root / "sys/fs/cgroup/memory", group, kVersion1, available);
    }
  }
  return available;
}

uint64_t AnonymousBytes(const fs::path& root) {
  const std::optional<std::string> status = ReadWhole(root / "proc/self/status");
  return status ? FindField(*status, "RssAnon:").value_or(0) * 1024 : 0;
}

}  // namespace hadal
