#include "model/pack_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>

#include "base/error.h"
#include "formats/testing.h"
#include "model/loader.h"

namespace hadal {
namespace {

namespace fs = std::filesystem;
using formats_testing::Message;
using formats_testing::Models;
using formats_testing::TempFolder;

// A copy of a small model and a cache beside it.
class PackCacheTest : public ::testing::Test {
 protected:
  PackCacheTest() {
    Copy("deepseek_v3");
    options_.cache.folder = temp_ / "cache/packed";
    options_.cache.min_bytes = 0;
    options_.cache.warn = [this](const std::string& text) { warnings_.push_back(text); };
  }

  void Copy(const std::string& name) {
    fs::create_directories(temp_ / name);
    fs::copy(Models() / name, temp_ / name, fs::copy_options::recursive);
  }

  LoadedWeights Load(const std::string& name = "deepseek_v3") {
    const Checkpoint checkpoint = Checkpoint::Open(temp_ / name);
    return LoadWeights(checkpoint, *backend_, options_);
  }

  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    if (!fs::exists(options_.cache.folder)) return files;
    for (const auto& entry : fs::directory_iterator(options_.cache.folder)) {
      files.push_back(entry.path());
    }
    return files;
  }

  // The last of the model's files with tensors.
  fs::path Tensors() const { return Checkpoint::Open(temp_ / "deepseek_v3").files().back(); }

  // The only file there is.
  fs::path File() const {
    HADAL_CHECK(Files().size() == 1);
    return Files()[0];
  }

  void ExpectPacked(const LoadOutcome& outcome) {
    EXPECT_FALSE(outcome.from_cache);
    EXPECT_EQ(outcome.file, fs::path()) << outcome.file;
  }
  void ExpectKept(const LoadOutcome& outcome) {
    EXPECT_FALSE(outcome.from_cache);
    EXPECT_TRUE(fs::exists(outcome.file)) << outcome.why_not_kept;
  }
  void ExpectRead(const LoadOutcome& outcome) {
    EXPECT_TRUE(outcome.from_cache) << outcome.why_not_kept;
    EXPECT_TRUE(fs::exists(outcome.file));
  }

  TempFolder temp_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(2);
  LoadOptions options_;
  std::vector<std::string> warnings_;
};

void FlipByte(const fs::path& path, uint64_t at) {
  const FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  char byte = 0;
  HADAL_CHECK(::pread(fd.get(), &byte, 1, static_cast<off_t>(at)) == 1);
  byte = static_cast<char>(byte ^ 1);
  HADAL_CHECK(::pwrite(fd.get(), &byte, 1, static_cast<off_t>(at)) == 1);
}

TEST_F(PackCacheTest, TheSecondLoadReadsWhatTheFirstKept) {
  const LoadedWeights first = Load();
  ExpectKept(first.outcome);
  EXPECT_NE(Describe(first.outcome).find(", kept in " + File().string()), std::string::npos);
  const LoadedWeights second = Load();
  ExpectRead(second.outcome);
  EXPECT_EQ(second.outcome.file, File());
  EXPECT_EQ(second.bytes, first.bytes);
  EXPECT_EQ(second.step_bytes, first.step_bytes);
  EXPECT_NE(Describe(second.outcome).find("weights read from "), std::string::npos);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(PackCacheTest, ReadingDoesNotTouchTheTensors) {
  options_.policy = WeightPolicy::kAsStored;
  Load();
  const Checkpoint checkpoint = Checkpoint::Open(temp_ / "deepseek_v3");
  // Reading tensors from here on would end the process with SIGBUS.
  for (const fs::path& file : checkpoint.files()) ASSERT_EQ(::truncate(file.c_str(), 0), 0);
  ExpectRead(LoadWeights(checkpoint, *backend_, options_).outcome);
}

TEST_F(PackCacheTest, EveryPolicyHasItsOwnFile) {
  for (const WeightPolicy policy :
       {WeightPolicy::kAsStored, WeightPolicy::kF32, WeightPolicy::kQ4}) {
    options_.policy = policy;
    ExpectKept(Load().outcome);
    ExpectRead(Load().outcome);
  }
  EXPECT_EQ(Files().size(), 3u);
}

TEST_F(PackCacheTest, AChangedModelIsPackedAnewInTheSamePlace) {
  Load();
  const fs::path file = File();
  const fs::path tensors = Tensors();
  fs::last_write_time(tensors, fs::last_write_time(tensors) + std::chrono::nanoseconds(1));
  ExpectKept(Load().outcome);
  EXPECT_EQ(File(), file);
  ExpectRead(Load().outcome);
  // Another file at the same path with the same size and times.
  const auto time = fs::last_write_time(tensors);
  fs::copy(tensors, temp_ / "copy");
  fs::rename(temp_ / "copy", tensors);
  fs::last_write_time(tensors, time);
  ExpectKept(Load().outcome);
  EXPECT_EQ(File(), file);
}

TEST_F(PackCacheTest, FilesThatChangeWhileTheyAreReadAreNotKept) {
  const fs::path tensors = Tensors();
  options_.progress = [&](uint64_t, uint64_t) {
    fs::last_write_time(tensors, fs::last_write_time(tensors) + std::chrono::seconds(1));
  };
  const LoadOutcome outcome = Load().outcome;
  ExpectPacked(outcome);
  EXPECT_EQ(outcome.why_not_kept, "the files changed meanwhile");
  EXPECT_TRUE(Files().empty());
}

TEST_F(PackCacheTest, DamageIsToldOnceAndMended) {
  Load();
  const fs::path file = File();
  const uint64_t size = fs::file_size(file);
  // Header, first weights, a weight in the middle, index; each is the whole of what a load meets.
  for (const uint64_t at : {uint64_t{9}, uint64_t{4096}, size / 2 / 4096 * 4096, size - 5}) {
    FlipByte(file, at);
    warnings_.clear();
    ExpectKept(Load().outcome);
    ASSERT_EQ(warnings_.size(), 1u) << at;
    EXPECT_NE(warnings_[0].find(file.string()), std::string::npos) << warnings_[0];
    EXPECT_NE(warnings_[0].find("packed anew"), std::string::npos) << warnings_[0];
    ExpectRead(Load().outcome);
    EXPECT_EQ(warnings_.size(), 1u);
  }
  for (const uint64_t left : {uint64_t{0}, uint64_t{100}, size / 2, size - 1}) {
    fs::resize_file(file, left);
    ExpectKept(Load().outcome);
    ExpectRead(Load().outcome);
  }
}

TEST_F(PackCacheTest, ALoadThatIsCutShortLeavesNothing) {
  uint64_t calls = 0;
  options_.progress = [&](uint64_t, uint64_t) {
    if (++calls > 5) Fail(ErrorKind::kCancelled, "stopped");
  };
  EXPECT_THROW(Load(), Error);
  EXPECT_TRUE(Files().empty());
}

TEST_F(PackCacheTest, WhatACrashLeftIsClearedAway) {
  Load();
  const fs::path file = File();
  fs::remove(file);
  const fs::path own = file.string() + ".tmp";
  const fs::path other = options_.cache.folder / "other-0123456789abcdef.packed.tmp";
  for (const fs::path& path : {own, other}) {
    const FileDescriptor fd(::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    ASSERT_EQ(::ftruncate(fd.get(), 100000), 0);
  }
  ExpectKept(Load().outcome);
  EXPECT_EQ(File(), file);
  ExpectRead(Load().outcome);
}

TEST_F(PackCacheTest, OfTwoProcessesOneWrites) {
  Load();
  const fs::path file = File();
  fs::remove(file);
  const fs::path temporary = file.string() + ".tmp";
  const FileDescriptor writer(::open(temporary.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_EQ(::flock(writer.get(), LOCK_EX), 0);
  ASSERT_EQ(::write(writer.get(), "abc", 3), 3);
  const LoadOutcome outcome = Load().outcome;
  ExpectPacked(outcome);
  EXPECT_EQ(outcome.why_not_kept, "another process is writing them");
  EXPECT_EQ(fs::file_size(temporary), 3u);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(PackCacheTest, ALoadDuringAnotherOneIsNotDisturbed) {
  uint64_t calls = 0;
  LoadOptions inner = options_;
  options_.progress = [&](uint64_t, uint64_t) {
    if (++calls != 3) return;
    const Checkpoint checkpoint = Checkpoint::Open(temp_ / "deepseek_v3");
    const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
    ExpectPacked(LoadWeights(checkpoint, *backend, inner).outcome);
  };
  ExpectKept(Load().outcome);
  EXPECT_GT(calls, 3u);
  options_.progress = {};
  ExpectRead(Load().outcome);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(PackCacheTest, TheLeastRecentlyUsedFilesMakeRoom) {
  for (const char* name : {"llama_gqa", "qwen3", "llama_bias"}) Copy(name);
  const uint64_t each = [&] {
    Load("llama_gqa");
    return fs::file_size(File());
  }();
  const fs::path llama = File();
  const LoadOutcome qwen = Load("qwen3").outcome;
  ExpectKept(qwen);
  const auto hour = std::chrono::hours(1);
  fs::last_write_time(llama, fs::last_write_time(llama) - 2 * hour);
  fs::last_write_time(qwen.file, fs::last_write_time(qwen.file) - hour);
  ExpectRead(Load("llama_gqa").outcome);  // qwen3's is the oldest now
  options_.cache.max_bytes = each + fs::file_size(qwen.file) + each / 2;
  ExpectKept(Load("llama_bias").outcome);
  EXPECT_FALSE(fs::exists(qwen.file));
  EXPECT_TRUE(fs::exists(llama));
  ExpectRead(Load("llama_gqa").outcome);
  ExpectRead(Load("llama_bias").outcome);
}

TEST_F(PackCacheTest, WhatExceedsTheBoundDisplacesNothing) {
  Copy("llama_gqa");
  ExpectKept(Load().outcome);
  const fs::path file = File();
  options_.cache.max_bytes = 1000;
  const LoadOutcome outcome = Load("llama_gqa").outcome;
  ExpectPacked(outcome);
  EXPECT_NE(outcome.why_not_kept.find("--pack-cache-size"), std::string::npos);
  EXPECT_EQ(File(), file);
}

TEST_F(PackCacheTest, SmallModelsAndRefKeepNothing) {
  options_.cache.min_bytes = uint64_t{64} << 20;
  ExpectPacked(Load().outcome);
  EXPECT_FALSE(fs::exists(options_.cache.folder));
  options_.cache.min_bytes = 0;
  backend_ = MakeRefBackend();
  const LoadOutcome outcome = Load().outcome;
  ExpectPacked(outcome);
  EXPECT_EQ(outcome.why_not_kept, "");
  EXPECT_TRUE(Files().empty());
  backend_ = MakeCpuBackend(1);
  options_.cache.max_bytes = 0;
  ExpectPacked(Load().outcome);
  options_.cache.folder.clear();
  options_.cache.max_bytes = 1 << 30;
  ExpectPacked(Load().outcome);
}

TEST_F(PackCacheTest, AFolderThatCannotBeMadeIsNoError) {
  temp_.Write("plain", "a file");
  options_.cache.folder = temp_ / "plain/packed";
  const LoadOutcome outcome = Load().outcome;
  ExpectPacked(outcome);
  EXPECT_NE(outcome.why_not_kept.find("plain/packed"), std::string::npos);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(PackCacheTest, AFullDiskIsOneWarning) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  uint64_t calls = 0;
  options_.progress = [&](uint64_t, uint64_t) {
    const rlimit full = {20000, before.rlim_max};
    if (++calls == 3) HADAL_CHECK(::setrlimit(RLIMIT_FSIZE, &full) == 0);
  };
  const LoadOutcome outcome = Load().outcome;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ExpectPacked(outcome);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("cannot write"), std::string::npos) << warnings_[0];
  EXPECT_TRUE(Files().empty());
  // Known beforehand, it is none.
  warnings_.clear();
  const rlimit small = {20000, before.rlim_max};
  options_.progress = {};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const LoadOutcome refused = Load().outcome;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_NE(refused.why_not_kept.find("ulimit"), std::string::npos);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(PackCacheTest, BadModelsAreStillRefused) {
  const fs::path tensors = Tensors();
  Load();
  const uint64_t size = fs::file_size(tensors);
  for (uint64_t at = size - 64; at < size; ++at) {  // exponents of f32 and bf16 alike
    const FileDescriptor fd(::open(tensors.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::pwrite(fd.get(), "\xFF", 1, static_cast<off_t>(at)), 1);
  }
  EXPECT_NE(Message([&] { Load(); }).find("not a finite number"), std::string::npos);
  EXPECT_TRUE(Files().size() <= 1u);
  EXPECT_NE(Message([&] { Load(); }).find("not a finite number"), std::string::npos);
}

}  // namespace
}  // namespace hadal
