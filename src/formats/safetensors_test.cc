#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include "formats/testing.h"

namespace hadal {
namespace {

using formats_testing::Bytes;
using formats_testing::Message;

Bytes File(std::string_view header, size_t data_bytes) {
  Bytes file = Bytes().U64(header.size()).Raw(header);
  for (size_t i = 0; i < data_bytes; ++i) file.U8(static_cast<uint8_t>(i));
  return file;
}

TEST(Safetensors, ReadsTensors) {
  const Bytes file = File(R"({"__metadata__":{"format":"pt"},)"
                          R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},)"
                          R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                          20);
  const std::vector<TensorView> tensors = ParseSafetensors(file.span(), "m");
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[1].name, "b");
  EXPECT_EQ(tensors[1].dtype, DType::kBF16);
  EXPECT_EQ(tensors[1].shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(std::to_integer<int>(tensors[1].data[0]), 8);
}

TEST(Safetensors, WhoReadsNoWeightsCanDoWithoutThem) {
  const Bytes file = File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                          R"("b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
                          12);
  const std::vector<TensorView> tensors = ParseSafetensors(file.span(), "m", MissingData::kAllow);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].data.size(), 8u);
  EXPECT_TRUE(tensors[1].data.empty());
  EXPECT_EQ(tensors[1].shape, std::vector<uint64_t>{2});
}

TEST(Safetensors, HostileFilesAreOneClearError) {
  const auto one = [](std::string_view entry) { return R"({"w":)" + std::string(entry) + "}"; };
  struct Case {
    Bytes file;
    const char* error;
  };
  const std::vector<Case> cases = {
      {Bytes().Raw("abc"), "not a safetensors file: only 3 bytes"},
      {Bytes().U64(~uint64_t{0}).Raw("{}"), "its header would be 18446744073709551615 bytes"},
      {Bytes().U64(100).Raw("{}"), "ends inside its header: 100 bytes expected, 2 there"},
      {File("{", 0), "not valid JSON"},
      {File("[]", 0), "header is not an object"},
      {File(std::string(400, '['), 0), "nested deeper"},
      {File(one("1"), 0), "tensor 'w': its entry is not an object"},
      {File(one(R"({"shape":[],"data_offsets":[0,4]})"), 4), "'dtype' is missing"},
      {File(one(R"({"dtype":"C64","shape":[],"data_offsets":[0,8]})"), 8), "has the type C64"},
      {File(one(R"({"dtype":7,"shape":[],"data_offsets":[0,8]})"), 8), "'dtype' must be a string"},
      {File(one(R"({"dtype":"F32","shape":[2,0],"data_offsets":[0,0]})"), 0), "length 0"},
      {File(one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"), 4), "integers of 0 or"},
      {File(one(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})"), 4), "integers of 0 or"},
      {File(one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]})"), 4),
       "more than 2^60 elements"},
      {File(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"), 4),
       "need 8 bytes, its offsets are 0 to 4"},
      {File(one(R"({"dtype":"F32","shape":[1],"data_offsets":[8,4]})"), 8), "need 4 bytes"},
      {File(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})"), 5),
       "truncated: tensor 'w' needs 8 bytes, 5 are there"},
      {File(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"), 8), "begins at 4"},
      {File(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"), 9),
       "5 bytes after the last tensor"},
      {File(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
            R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
            8),
       "begins at 0, but the one before it ends at 4"},
      {File(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
            R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
            4),
       "\"a\" stands twice"},
  };
  for (const Case& c : cases) {
    const std::string error = Message([&] { ParseSafetensors(c.file.span(), "m"); });
    EXPECT_NE(error.find(c.error), std::string::npos)
        << c.error << " <- " << (error.empty() ? "no error" : error);
  }
}

}  // namespace
}  // namespace hadal
