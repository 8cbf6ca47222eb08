// Any bytes as a file of blobs: either one clear Error, or blobs that can all be read or are said
// to be damaged. The first byte decides whether the index's checksum is put right, as no fuzzer
// finds one by itself.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/blob_file.h"
#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"

namespace hadal {
namespace {

constexpr size_t kChecksumAt = 56;

uint64_t NumberAt(std::span<const std::byte> bytes, size_t at) {
  uint64_t number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

// Sizes too, as the fuzzer changes the file's all the time.
void PutRight(std::vector<std::byte>& file) {
  if (file.size() < 64) return;
  const uint64_t size = file.size();
  std::memcpy(file.data(), "HDLBLOB1", 8);
  std::memcpy(file.data() + 8, &size, sizeof(size));
  const uint64_t index_at = std::min(NumberAt(file, 16), size);
  const auto bytes = std::span<const std::byte>(file);
  const uint64_t checksum = Hash64(bytes.subspan(index_at), Hash64(bytes.first(kChecksumAt)));
  std::memcpy(file.data() + kChecksumAt, &checksum, sizeof(checksum));
}

void Run(std::span<const uint8_t> input) {
  if (input.empty()) return;
  const auto bytes = std::as_bytes(input.subspan(1));
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  if ((input[0] & 1) != 0) PutRight(file);
  FileDescriptor fd(::memfd_create("fuzz", MFD_CLOEXEC));
  HADAL_CHECK(fd &&
              ::write(fd.get(), file.data(), file.size()) == static_cast<ssize_t>(file.size()));
  const BlobReader reader(std::move(fd), "fuzz");
  uint64_t sum = 0;
  for (size_t blob = 0; blob < reader.size(); ++blob) {
    sum += reader.bytes(blob);
    HADAL_CHECK(sum <= file.size());
    std::vector<std::byte> content(reader.bytes(blob));
    for (uint64_t at = 0; at < content.size(); at += kBlobChunk) {
      const uint64_t part = std::min(kBlobChunk, content.size() - at);
      try {
        reader.ReadChunk(blob, at / kBlobChunk, std::span(content).subspan(at, part));
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace
}  // namespace hadal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    hadal::Run({data, size});
  } catch (const hadal::Error&) {
  }
  return 0;
}
