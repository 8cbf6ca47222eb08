#include "base/blob_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace hadal {
namespace {

using Bytes = std::vector<std::byte>;

Bytes Pattern(uint64_t size, int seed) {
  Bytes bytes(size);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((i * 31 + i / 251 + static_cast<size_t>(seed)) & 0xFF);
  }
  return bytes;
}

// A file that is gone with its descriptor.
FileDescriptor NewFile() {
  return FileDescriptor(::memfd_create("blobs", MFD_CLOEXEC));
}

FileDescriptor Again(const FileDescriptor& fd) {
  return FileDescriptor(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
}

const std::vector<Bytes>& Blobs() {
  static const std::vector<Bytes> blobs = {Pattern(1, 1),          {},
                                           Pattern(4096, 2),       Pattern(2 * kBlobChunk + 777, 3),
                                           Pattern(kBlobChunk, 4), {}};
  return blobs;
}

FileDescriptor Written(const std::string& key) {
  FileDescriptor fd = NewFile();
  BlobWriter writer(fd.get(), "test");
  for (const Bytes& blob : Blobs()) writer.Append(blob);
  writer.Finish(key);
  return fd;
}

Bytes ReadBlob(const BlobReader& reader, size_t blob) {
  Bytes bytes(reader.bytes(blob));
  for (uint64_t at = 0; at < bytes.size(); at += kBlobChunk) {
    reader.ReadChunk(blob, at / kBlobChunk,
                     std::span(bytes).subspan(at, std::min(kBlobChunk, bytes.size() - at)));
  }
  return bytes;
}

// What reading all of the file fails with; empty: with nothing.
std::string Failure(const FileDescriptor& fd) {
  try {
    const BlobReader reader(Again(fd), "some.file");
    for (size_t i = 0; i < reader.size(); ++i) {
      if (ReadBlob(reader, i) != Blobs().at(i)) return "other bytes";
    }
    return reader.key() == "key" ? "" : "other key";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadFile) << error.message();
    EXPECT_NE(error.message().find("some.file"), std::string::npos);
    return error.message();
  }
}

uint64_t SizeOf(const FileDescriptor& fd) {
  return static_cast<uint64_t>(::lseek(fd.get(), 0, SEEK_END));
}

TEST(BlobFile, GivesBackWhatWasWritten) {
  for (const std::string& key : {std::string(), std::string("key"), std::string(70000, 'k')}) {
    const FileDescriptor fd = Written(key);
    const BlobReader reader(Again(fd), "test");
    EXPECT_EQ(reader.key(), key);
    ASSERT_EQ(reader.size(), Blobs().size());
    for (size_t i = Blobs().size(); i-- > 0;) EXPECT_EQ(ReadBlob(reader, i), Blobs()[i]) << i;
    EXPECT_THROW(reader.bytes(Blobs().size()), Error);
  }
  const FileDescriptor fd = NewFile();
  BlobWriter(fd.get(), "test").Finish("nothing");
  EXPECT_EQ(BlobReader(Again(fd), "test").size(), 0u);
}

TEST(BlobFile, EveryDamageIsFound) {
  const FileDescriptor fd = Written("key");
  ASSERT_EQ(Failure(fd), "");
  const uint64_t size = SizeOf(fd);
  // The header, the first bytes and the last of what follows it, the index.
  std::vector<uint64_t> places(64);
  std::iota(places.begin(), places.end(), 0);
  for (const uint64_t at : {uint64_t{4096}, uint64_t{8192}, uint64_t{12287}, uint64_t{12288},
                            12288 + kBlobChunk, 12288 + 2 * kBlobChunk + 776}) {
    places.push_back(at);
  }
  for (uint64_t at = size - 3 - 6 * 8 - 5 * 8; at < size; ++at) places.push_back(at);
  for (const uint64_t at : places) {
    std::byte byte{};
    ASSERT_EQ(::pread(fd.get(), &byte, 1, static_cast<off_t>(at)), 1);
    const std::byte flipped = byte ^ std::byte{4};
    ASSERT_EQ(::pwrite(fd.get(), &flipped, 1, static_cast<off_t>(at)), 1);
    EXPECT_NE(Failure(fd), "") << at;
    ASSERT_EQ(::pwrite(fd.get(), &byte, 1, static_cast<off_t>(at)), 1);
  }
  EXPECT_EQ(Failure(fd), "");
}

TEST(BlobFile, CutAndLongerFilesAreNone) {
  const uint64_t size = SizeOf(Written("key"));
  for (const uint64_t left : {uint64_t{0}, uint64_t{63}, uint64_t{64}, uint64_t{4096},
                              uint64_t{9000}, size - 1, size + 1, size + 5000}) {
    const FileDescriptor fd = Written("key");
    ASSERT_EQ(::ftruncate(fd.get(), static_cast<off_t>(left)), 0);
    EXPECT_NE(Failure(fd), "") << left;
  }
}

TEST(BlobFile, AFileThatShrinksWhileItIsReadIsAnError) {
  const FileDescriptor fd = Written("key");
  const BlobReader reader(Again(fd), "test");
  ASSERT_EQ(::ftruncate(fd.get(), 20000), 0);
  EXPECT_EQ(ReadBlob(reader, 0), Blobs()[0]);
  EXPECT_THROW(ReadBlob(reader, 3), Error);
}

TEST(BlobFile, WithoutFinishThereIsNoFile) {
  const FileDescriptor fd = NewFile();
  BlobWriter writer(fd.get(), "test");
  for (const Bytes& blob : Blobs()) writer.Append(blob);
  EXPECT_NE(Failure(fd).find("not finished"), std::string::npos);
}

TEST(BlobFile, FullDiskIsAnError) {
  const FileDescriptor fd(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  if (!fd) GTEST_SKIP();
  BlobWriter writer(fd.get(), "/dev/full");
  try {
    writer.Append(Pattern(10, 0));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResource);
    EXPECT_EQ(error.message(), "/dev/full: cannot write: No space left on device");
  }
}

}  // namespace
}  // namespace hadal
