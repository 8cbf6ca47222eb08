#include "formats/gguf.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "formats/testing.h"

namespace hadal {
namespace {

using formats_testing::Bytes;
using formats_testing::Message;

constexpr uint32_t kU32 = 4, kF32 = 6, kBool = 7, kString = 8, kArray = 9;

Bytes Header(uint64_t tensors, uint64_t metadata, uint32_t version = 3) {
  return Bytes().Raw("GGUF").U32(version).U64(tensors).U64(metadata);
}

// name, dims (innermost first, as in the file), type, offset
Bytes& Tensor(Bytes& out, std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
              uint64_t offset) {
  out.String(name).U32(static_cast<uint32_t>(dims.size()));
  for (const uint64_t dim : dims) out.U64(dim);
  return out.U32(type).U64(offset);
}

std::string ParseError(const Bytes& bytes) {
  return Message([&] { ParseGguf(bytes.span(), "m.gguf"); });
}

TEST(Gguf, ReadsMetadataAndTensors) {
  Bytes file = Header(2, 3);
  file.String("a.count").U32(kU32).U32(7);
  file.String("a.names").U32(kArray).U32(kString).U64(2).String("x").String("yz");
  file.String("a.flag").U32(kBool).U8(1);
  Tensor(file, "w", {4, 3}, 0, 0);
  Tensor(file, "b", {2}, 1, 64);
  file.Pad(32);
  for (int i = 0; i < 64; ++i) file.U8(static_cast<uint8_t>(i));
  file.U32(0xAABBCCDD);
  const GgufContents contents = ParseGguf(file.span(), "m.gguf");
  EXPECT_EQ(contents.version, 3u);
  EXPECT_EQ(contents.Find("a.count")->ToJson(), Json(7));
  EXPECT_EQ(contents.Find("a.names")->ToJson(), Json({"x", "yz"}));
  EXPECT_EQ(contents.Find("a.flag")->ToJson(), Json(true));
  EXPECT_EQ(contents.Find("a.none"), nullptr);
  ASSERT_EQ(contents.tensors.size(), 2u);
  EXPECT_EQ(contents.tensors[0].shape, (std::vector<uint64_t>{3, 4}));
  EXPECT_EQ(contents.tensors[0].data.size(), 48u);
  EXPECT_EQ(contents.tensors[1].dtype, DType::kF16);
  EXPECT_EQ(std::to_integer<int>(contents.tensors[1].data[0]), 0xDD);
}

TEST(Gguf, AlignmentOfTheFileCounts) {
  Bytes file = Header(1, 1);
  file.String("general.alignment").U32(kU32).U32(64);
  Tensor(file, "w", {1}, 0, 0);
  file.Pad(64).U32(0x3F800000);
  EXPECT_EQ(ParseGguf(file.span(), "m").tensors[0].data.size(), 4u);
}

struct Hostile {
  const char* what;
  Bytes file;
  std::string error;
};

std::vector<Hostile> HostileHeaders() {
  const uint64_t kHuge = uint64_t{1} << 60;
  return {
      {"empty", Bytes(), "m.gguf: not a GGUF file"},
      {"another magic", Bytes().Raw("GGML").U32(3).U64(0).U64(0), "not a GGUF file"},
      {"version 1", Header(0, 0, 1), "GGUF version 1; versions 2 and 3 are supported"},
      {"big-endian", Header(0, 0, 3u << 24), "a big-endian GGUF file"},
      {"2^60 tensors", Header(kHuge, 0), "claims 1152921504606846976 tensors, more than its 24"},
      {"2^60 keys", Header(0, kHuge), "claims 1152921504606846976 metadata entries"},
      {"key cut off", Header(0, 1).U64(100).Raw("abcdef"), "the file ends inside"},
      {"key of 2^64-1 bytes", Header(0, 1).U64(~uint64_t{0}).Raw("abcdefgh"),
       "the file ends inside a metadata key: 18446744073709551615 bytes"},
      {"unknown value type", Header(0, 1).String("k").U32(99).U64(0),
       "metadata 'k' has the unknown value type 99"},
      {"boolean 2", Header(0, 1).String("k").U32(kBool).U8(2), "metadata 'k' holds the boolean 2"},
      {"string array of 2^60", Header(0, 1).String("k").U32(kArray).U32(kString).U64(kHuge),
       "claims 1152921504606846976 items in metadata 'k'"},
      {"number array of 2^62", Header(0, 1).String("k").U32(kArray).U32(kU32).U64(kHuge * 4),
       "items in metadata 'k'"},
      {"value cut off", Header(0, 1).String("k").U32(kU32).U8(0), "the file ends inside k"},
      {"twice the same key", Header(0, 2).String("k").U32(kU32).U32(1).String("k").U32(kU32).U32(1),
       "metadata key 'k' occurs twice"},
      {"alignment 3", Header(0, 1).String("general.alignment").U32(kU32).U32(3),
       "general.alignment must be a power of two up to 1048576, not 3"},
      {"alignment as float", Header(0, 1).String("general.alignment").U32(kF32).U32(0x42000000),
       "general.alignment must be a power of two"},
  };
}

Bytes OneTensor(const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset,
                size_t data_bytes) {
  Bytes file = Header(1, 0);
  Tensor(file, "w", dims, type, offset).Pad(32);
  for (size_t i = 0; i < data_bytes; ++i) file.U8(0);
  return file;
}

std::vector<Hostile> HostileTensors() {
  const uint64_t kHuge = uint64_t{1} << 60;
  Bytes overlap = Header(2, 0);
  Tensor(overlap, "a", {16}, 0, 0);
  Tensor(overlap, "b", {16}, 0, 32).Pad(32);
  for (int i = 0; i < 128; ++i) overlap.U8(0);
  Bytes twice = Header(2, 0);
  Tensor(twice, "a", {1}, 0, 0);
  Tensor(twice, "a", {1}, 0, 32);
  Bytes nested = Header(0, 1);
  nested.String("k").U32(kArray);
  for (int i = 0; i < 9; ++i) nested.U32(kArray).U64(1);
  nested.U32(kU32).U64(0);
  return {
      {"no dimension", OneTensor({}, 0, 0, 64), "tensor 'w' has 0 dimensions"},
      {"five dimensions", OneTensor({1, 1, 1, 1, 1}, 0, 0, 64), "tensor 'w' has 5 dimensions"},
      {"length 0", OneTensor({4, 0}, 0, 0, 64), "tensor 'w' has a dimension of length 0"},
      {"2^60 x 2^60", OneTensor({kHuge, kHuge}, 0, 0, 64),
       "tensor 'w' has more than 2^60 elements"},
      {"2^60 elements", OneTensor({kHuge}, 0, 0, 64),
       "the file is truncated: tensor 'w' needs 4611686018427387904 bytes, 64 are there"},
      {"unknown type", OneTensor({32}, 77, 0, 64), "tensor 'w' has the unknown type 77"},
      {"type that we lack", OneTensor({256}, 16, 0, 512), "has type IQ2_XXS (16), which is not"},
      {"row not of whole blocks", OneTensor({48}, 8, 0, 512),
       "rows of 48 elements do not divide into the blocks of 32 of q8_0"},
      {"unaligned", OneTensor({4}, 0, 8, 64), "lies at offset 8, not a multiple of 32"},
      {"offset past the end", OneTensor({4}, 0, 1 << 20, 64), "needs 16 bytes, 0 are there"},
      {"offset near 2^64", OneTensor({4}, 0, ~uint64_t{0} - 31, 64), "needs 16 bytes, 0 are there"},
      {"truncated", OneTensor({16}, 0, 0, 60), "needs 64 bytes, 60 are there"},
      {"overlap", overlap, "tensors 'a' and 'b' overlap"},
      {"same name twice", twice, "tensor 'a' occurs twice"},
      {"nested arrays", nested, "nests arrays deeper than 4 levels"},
  };
}

TEST(Gguf, WhoReadsNoWeightsCanDoWithoutThem) {
  const Bytes file = OneTensor({16}, 0, 0, 60);
  const GgufContents contents = ParseGguf(file.span(), "m", MissingData::kAllow);
  EXPECT_TRUE(contents.data_missing);
  ASSERT_EQ(contents.tensors.size(), 1u);
  EXPECT_EQ(contents.tensors[0].shape, std::vector<uint64_t>{16});
  EXPECT_TRUE(contents.tensors[0].data.empty());
  const Bytes whole = OneTensor({16}, 0, 0, 64);
  EXPECT_FALSE(ParseGguf(whole.span(), "m", MissingData::kAllow).data_missing);
}

TEST(Gguf, HostileFilesAreOneClearError) {
  for (const auto& cases : {HostileHeaders(), HostileTensors()}) {
    for (const Hostile& hostile : cases) {
      const std::string error = ParseError(hostile.file);
      EXPECT_NE(error.find(hostile.error), std::string::npos)
          << hostile.what << ": " << (error.empty() ? "no error" : error);
    }
  }
}

// Every prefix of a good file is an error, never a crash.
TEST(Gguf, EveryTruncationIsAnError) {
  const MappedFile file(formats_testing::Models() / "qwen3" / "model.gguf");
  const auto bytes = file.bytes();
  for (size_t size = 0; size < bytes.size(); size += size < 2000 ? 1 : 997) {
    const std::vector<std::byte> copy(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_THROW(ParseGguf(copy, "cut"), Error) << size;
  }
}

}  // namespace
}  // namespace hadal
