// GGUF versions 2 and 3: metadata and tensor directory of one file, and the merging of split files.
// Every length is checked against the file before anything is allocated or read.
// Format: the GGUF page of the ggml project's documentation.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "spec/vocabulary.h"
#include "tensor/tensor_view.h"

namespace hadal {

// Tensors by the names that they have in their files.
using TensorIndex = std::map<std::string, TensorView, std::less<>>;

// What to do where a file ends before its tensors' bytes do.
enum class MissingData : uint8_t {
  kRefuse,
  kAllow,  // for who reads no weights: such a tensor's view has no data
};

enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// One metadata value; the bytes lie in the file.
struct GgufValue {
  GgufType type = GgufType::kU8;
  GgufType element = GgufType::kU8;      // of an array
  uint64_t count = 1;                    // elements of an array
  std::span<const std::byte> payload;    // the value; of an array, its elements
  std::span<const std::byte> raw_value;  // as in the file after the type, for copying

  // Integers, floats and booleans, and arrays of up to `max_items` of them or of strings, as JSON.
  // Discarded (is_discarded()) for longer or nested arrays.
  Json ToJson(uint64_t max_items = 4096) const;
  // Requires an array of strings.
  std::vector<std::string> Strings() const;
};

struct GgufContents {
  std::string source;
  uint32_t version = 0;
  std::vector<std::pair<std::string, GgufValue>> metadata;  // in file order
  std::vector<TensorView> tensors;                          // in file order
  uint64_t alignment = 32;
  bool data_missing = false;  // of some tensor

  const GgufValue* Find(std::string_view key) const;  // null when absent
};

// `bytes` must outlive the result. Throws Error(kBadFile | kUnsupported) that begins with `source`.
GgufContents ParseGguf(std::span<const std::byte> bytes, const std::string& source,
                       MissingData missing = MissingData::kRefuse);

// GGUF's number for a type, and back. FromGgufType throws when we do not have the type.
uint32_t ToGgufType(DType type);
DType FromGgufType(uint32_t type, const std::string& place);

// A model in one GGUF file or several.
struct GgufModel {
  std::vector<MappedFile> files;
  GgufContents first;  // metadata of the whole model; tensors of the first file
  TensorIndex tensors;
  std::string architecture;
  Json metadata;  // keys that begin with "ARCHITECTURE.", without that
  bool data_missing = false;
};

GgufModel OpenGguf(const std::filesystem::path& path, MissingData missing = MissingData::kRefuse);

// The fields tokenizer.*; only checks that their types are right.
Vocabulary GgufVocabulary(const GgufContents& contents);

}  // namespace hadal
