#include "memory/available_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"

namespace hadal {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kGiB = uint64_t{1} << 30;

// A made-up /proc and /sys.
class FakeRoot : public testing::Test {
 protected:
  FakeRoot()
      : root_(fs::temp_directory_path() /
              fmt::format("hadal_memory_{}_{}", getpid(),
                          testing::UnitTest::GetInstance()->current_test_info()->name())) {}
  ~FakeRoot() override { fs::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void Machine(uint64_t kib) {
    Write("proc/meminfo", fmt::format("MemTotal:  99 kB\nMemAvailable:   {} kB\n", kib));
  }
  fs::path root_;
};

TEST_F(FakeRoot, TheMachineWithoutGroups) {
  Machine(4 << 20);
  EXPECT_EQ(ReadAvailableMemory(root_).bytes, 4 * kGiB);
  EXPECT_EQ(ReadAvailableMemory(root_).limited_by, "the machine");
}

TEST_F(FakeRoot, GroupVersion2AndItsParents) {
  Machine(64 << 20);
  Write("proc/self/cgroup", "0::/outer/inner\n");
  Write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  Write("sys/fs/cgroup/outer/inner/memory.current", "5\n");
  EXPECT_EQ(ReadAvailableMemory(root_).bytes, 64 * kGiB);
  Write("sys/fs/cgroup/outer/memory.max", fmt::format("{}\n", 12 * kGiB));
  Write("sys/fs/cgroup/outer/memory.current", fmt::format("{}\n", 7 * kGiB));
  Write("sys/fs/cgroup/outer/memory.stat", fmt::format("anon 3\ninactive_file {}\n", 4 * kGiB));
  EXPECT_EQ(ReadAvailableMemory(root_).bytes, 9 * kGiB);
  EXPECT_EQ(ReadAvailableMemory(root_).limited_by, "the control group /outer");
  Write("sys/fs/cgroup/outer/memory.current", fmt::format("{}\n", 20 * kGiB));
  EXPECT_EQ(ReadAvailableMemory(root_).bytes, 0u);
}

TEST_F(FakeRoot, ContainerWhoseLimitStandsAtTheTop) {
  Machine(64 << 20);
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", fmt::format("{}", 2 * kGiB));
  Write("sys/fs/cgroup/memory.current", "0");
  EXPECT_EQ(ReadAvailableMemory(root_).bytes, 2 * kGiB);
  Write("proc/self/cgroup", "0::/not/visible/here\n");
  EXPECT_EQ(ReadAvailableMemory(root_).bytes, 2 * kGiB);
}

TEST_F(FakeRoot, GroupVersion1) {
  Machine(64 << 20);
  Write("proc/self/cgroup", "3:cpu,cpuacct:/x\n7:memory:/x\n");
  Write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", fmt::format("{}", 3 * kGiB));
  Write("sys/fs/cgroup/memory/x/memory.usage_in_bytes", fmt::format("{}", kGiB));
  EXPECT_EQ(ReadAvailableMemory(root_).bytes, 2 * kGiB);
}

TEST_F(FakeRoot, UnreadableMachineIsAnError) {
  EXPECT_THROW(ReadAvailableMemory(root_), Error);
}

TEST(AvailableMemory, ThisMachineHasSome) {
  EXPECT_GT(ReadAvailableMemory().bytes, 1u << 20);
}

}  // namespace
}  // namespace hadal
