#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/topology.h"

namespace hadal {
namespace {

namespace fs = std::filesystem;

std::optional<double> ReadRatio(const std::string& quota, const std::string& period) {
  const auto number = [](const std::string& text) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end != text.data() ? value : 0;
  };
  const int64_t q = number(quota);  // "max" and -1: no limit
  const int64_t p = number(period);
  if (q <= 0 || p <= 0) return std::nullopt;
  return static_cast<double>(q) / static_cast<double>(p);
}

std::string FirstWord(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// Version 2 has "quota period" in one file, version 1 two files.
std::optional<double> QuotaOf(const fs::path& group) {
  if (std::ifstream file(group / "cpu.max"); file) {
    std::string quota;
    std::string period;
    file >> quota >> period;
    return ReadRatio(quota, period);
  }
  return ReadRatio(FirstWord(group / "cpu.cfs_quota_us"), FirstWord(group / "cpu.cfs_period_us"));
}

// This group and those it lies in. A process in a container sees its group as "/" or under a path
// that is not there; its quota then stands at the mount's top.
void LimitByGroups(const fs::path& mount, const std::string& group, double& quota) {
  fs::path inside = fs::path(group).relative_path();
  for (;;) {
    if (const std::optional<double> found = QuotaOf(mount / inside)) {
      quota = quota == 0 ? *found : std::min(quota, *found);
    }
    if (inside.empty()) return;
    inside = inside.parent_path();
  }
}

}  // namespace

double ReadCpuQuota(const fs::path& root) {
  double quota = 0;
  std::ifstream lines(root / "proc/self/cgroup");
  // "0::/path" is version 2; "4:cpu,cpuacct:/path" is version 1.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (names.empty()) {
      LimitByGroups(root / "sys/fs/cgroup", group, quota);
      LimitByGroups(root / "sys/fs/cgroup/unified", group, quota);
    } else if (("," + names + ",").find(",cpu,") != std::string::npos) {
      LimitByGroups(root / "sys/fs/cgroup/cpu", group, quota);
      LimitByGroups(root / "sys/fs/cgroup" / names, group, quota);
    }
  }
  return quota;
}

}  // namespace hadal
