#include "formats/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <unordered_set>

#include "base/check.h"
#include "base/error.h"

namespace hadal {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kMaxAlignment = 1 << 20;
constexpr int kMaxArrayDepth = 4;

// Bytes of one value; 0 for strings and arrays.
uint32_t ScalarBytes(GgufType type) {
  constexpr std::array<uint8_t, 13> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<size_t>(type)];
}

struct TypeId {
  uint32_t id;
  DType type;
};
constexpr std::array kTypeIds = {
    TypeId{0, DType::kF32},     TypeId{1, DType::kF16},     TypeId{2, DType::kQ4_0},
    TypeId{3, DType::kQ4_1},    TypeId{6, DType::kQ5_0},    TypeId{7, DType::kQ5_1},
    TypeId{8, DType::kQ8_0},    TypeId{10, DType::kQ2_K},   TypeId{11, DType::kQ3_K},
    TypeId{12, DType::kQ4_K},   TypeId{13, DType::kQ5_K},   TypeId{14, DType::kQ6_K},
    TypeId{20, DType::kIQ4_NL}, TypeId{23, DType::kIQ4_XS}, TypeId{24, DType::kI8},
    TypeId{25, DType::kI16},    TypeId{26, DType::kI32},    TypeId{27, DType::kI64},
    TypeId{28, DType::kF64},    TypeId{30, DType::kBF16},   TypeId{39, DType::kMXFP4},
};

struct ForeignType {
  uint32_t id;
  const char* name;
};
constexpr std::array kForeignTypes = {
    ForeignType{9, "Q8_1"},    ForeignType{15, "Q8_K"},    ForeignType{16, "IQ2_XXS"},
    ForeignType{17, "IQ2_XS"}, ForeignType{18, "IQ3_XXS"}, ForeignType{19, "IQ1_S"},
    ForeignType{21, "IQ3_S"},  ForeignType{22, "IQ2_S"},   ForeignType{29, "IQ1_M"},
    ForeignType{34, "TQ1_0"},  ForeignType{35, "TQ2_0"},   ForeignType{40, "NVFP4"},
};

template <typename T>
T Load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

// Reads forward through the file and refuses to pass its end.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& source)
      : bytes_(bytes), source_(source) {}

  std::span<const std::byte> Take(uint64_t size, std::string_view what) {
    if (size > remaining()) {
      Fail(ErrorKind::kBadFile,
           "{}: the file ends inside {}: {} bytes at offset {}, but only {} left", source_, what,
           size, position_, remaining());
    }
    const auto taken = bytes_.subspan(position_, size);
    position_ += size;
    return taken;
  }
  template <typename T>
  T Number(std::string_view what) {
    return Load<T>(Take(sizeof(T), what).data());
  }
  std::string_view String(std::string_view what) {
    const auto bytes = Take(Number<uint64_t>(what), what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }
  std::span<const std::byte> Since(uint64_t begin) const {
    return bytes_.subspan(begin, position_ - begin);
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& source_;
  uint64_t position_ = 0;
};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& source, MissingData missing)
      : bytes_(bytes), cursor_(bytes, source), missing_(missing) {
    out_.source = source;
  }

  GgufContents Run() {
    Header();
    for (uint64_t i = 0; i < n_metadata_; ++i) Metadata();
    Alignment();
    for (uint64_t i = 0; i < n_tensors_; ++i) TensorInfo();
    Data();
    return std::move(out_);
  }

 private:
  void Header() {
    const auto& source = out_.source;
    if (bytes_.size() < 24 || Load<uint32_t>(bytes_.data()) != kMagic) {
      Fail(ErrorKind::kBadFile, "{}: not a GGUF file: it does not begin with \"GGUF\" and a header",
           source);
    }
    cursor_.Number<uint32_t>("the header");
    out_.version = cursor_.Number<uint32_t>("the header");
    if (out_.version != 0 && (out_.version & 0xFFFF) == 0) {
      Fail(ErrorKind::kUnsupported, "{}: a big-endian GGUF file; convert it to little-endian",
           source);
    }
    if (out_.version != 2 && out_.version != 3) {
      Fail(ErrorKind::kUnsupported, "{}: GGUF version {}; versions 2 and 3 are supported", source,
           out_.version);
    }
    n_tensors_ = cursor_.Number<uint64_t>("the header");
    n_metadata_ = cursor_.Number<uint64_t>("the header");
    // The smallest entries possible: an empty name; a type and one byte; one dimension.
    CheckCount(n_metadata_, 8 + 4 + 1, "metadata entries");
    CheckCount(n_tensors_, 8 + 4 + 8 + 4 + 8, "tensors");
  }

  void CheckCount(uint64_t count, uint64_t min_bytes, std::string_view what) const {
    if (count > cursor_.remaining() / min_bytes) {
      Fail(ErrorKind::kBadFile, "{}: claims {} {}, more than its {} bytes can hold", out_.source,
           count, what, bytes_.size());
    }
  }

  void Metadata() {
    const std::string key(cursor_.String("a metadata key"));
    if (!keys_.insert(key).second) {
      Fail(ErrorKind::kBadFile, "{}: metadata key '{}' occurs twice", out_.source, key);
    }
    GgufValue value;
    value.type = ReadType(key);
    const uint64_t begin = cursor_.position();
    if (value.type == GgufType::kArray) {
      value.element = ReadType(key);
      value.count = cursor_.Number<uint64_t>(key);
      const uint64_t first = cursor_.position();
      SkipItems(value.element, value.count, key, 1);
      value.payload = cursor_.Since(first);
    } else {
      SkipItems(value.type, 1, key, 0);
      value.payload = cursor_.Since(begin);
      if (value.type == GgufType::kString) value.payload = value.payload.subspan(8);
    }
    value.raw_value = cursor_.Since(begin);
    out_.metadata.emplace_back(key, value);
  }

  GgufType ReadType(const std::string& key) {
    const auto type = cursor_.Number<uint32_t>(key);
    if (type > static_cast<uint32_t>(GgufType::kF64)) {
      Fail(ErrorKind::kBadFile, "{}: metadata '{}' has the unknown value type {}", out_.source, key,
           type);
    }
    return static_cast<GgufType>(type);
  }

  void SkipItems(GgufType type, uint64_t count, const std::string& key, int depth) {
    if (depth > kMaxArrayDepth) {
      Fail(ErrorKind::kBadFile, "{}: metadata '{}' nests arrays deeper than {} levels", out_.source,
           key, kMaxArrayDepth);
    }
    if (type == GgufType::kString || type == GgufType::kArray) {
      CheckCount(count, type == GgufType::kString ? 8 : 12, "items in metadata '" + key + "'");
      for (uint64_t i = 0; i < count; ++i) {
        if (type == GgufType::kString) {
          cursor_.String(key);
          continue;
        }
        const GgufType inner = ReadType(key);
        SkipItems(inner, cursor_.Number<uint64_t>(key), key, depth + 1);
      }
      return;
    }
    const uint32_t size = ScalarBytes(type);
    if (depth > 0) CheckCount(count, size, "items in metadata '" + key + "'");
    const auto items = cursor_.Take(count * size, key);
    if (type != GgufType::kBool) return;
    for (const std::byte item : items) {
      if (item > std::byte{1}) {
        Fail(ErrorKind::kBadFile, "{}: metadata '{}' holds the boolean {}; only 0 and 1 exist",
             out_.source, key, std::to_integer<int>(item));
      }
    }
  }

  void Alignment() {
    const GgufValue* value = out_.Find("general.alignment");
    if (value == nullptr) return;
    const Json json = value->ToJson();
    const bool valid = json.is_number_unsigned() && json.get<uint64_t>() >= 1 &&
                       json.get<uint64_t>() <= kMaxAlignment &&
                       std::has_single_bit(json.get<uint64_t>());
    if (!valid) {
      Fail(ErrorKind::kBadFile, "{}: general.alignment must be a power of two up to {}, not {}",
           out_.source, kMaxAlignment, json.dump(-1, ' ', true, Json::error_handler_t::replace));
    }
    out_.alignment = json.get<uint64_t>();
  }

  void TensorInfo() {
    TensorView view;
    view.name = std::string(cursor_.String("a tensor's name"));
    if (!names_.insert(view.name).second) {
      Fail(ErrorKind::kBadFile, "{}: tensor '{}' occurs twice", out_.source, view.name);
    }
    const std::string place = fmt::format("{}: tensor '{}'", out_.source, view.name);
    const auto n_dims = cursor_.Number<uint32_t>(place);
    if (n_dims < 1 || n_dims > 4) {
      Fail(ErrorKind::kBadFile, "{} has {} dimensions; 1 to 4 are possible", place, n_dims);
    }
    uint64_t elements = 1;
    for (uint32_t i = 0; i < n_dims; ++i) {
      const auto dim = cursor_.Number<uint64_t>(place);
      // 2^60 elements: their bytes still fit in 64 bits, and no file holds as many.
      if (dim == 0) Fail(ErrorKind::kBadFile, "{} has a dimension of length 0", place);
      if (dim > (uint64_t{1} << 60) / elements) {
        Fail(ErrorKind::kBadFile, "{} has more than 2^60 elements", place);
      }
      elements *= dim;
      view.shape.insert(view.shape.begin(), dim);
    }
    view.dtype = FromGgufType(cursor_.Number<uint32_t>(place), place);
    const uint32_t block = Info(view.dtype).block_elements;
    if (view.cols() % block != 0) {
      Fail(ErrorKind::kBadFile, "{}: rows of {} elements do not divide into the blocks of {} of {}",
           place, view.cols(), block, Name(view.dtype));
    }
    sizes_.push_back(elements / block * Info(view.dtype).block_bytes);
    offsets_.push_back(cursor_.Number<uint64_t>(place));
    out_.tensors.push_back(std::move(view));
  }

  // Gives each tensor its bytes: inside the file, aligned, not shared with another tensor.
  void Data() {
    const uint64_t mask = out_.alignment - 1;
    const uint64_t base = (cursor_.position() + mask) & ~mask;
    const uint64_t available = bytes_.size() > base ? bytes_.size() - base : 0;
    for (size_t i = 0; i < out_.tensors.size(); ++i) {
      TensorView& view = out_.tensors[i];
      if ((offsets_[i] & mask) != 0) {
        Fail(ErrorKind::kBadFile, "{}: tensor '{}' lies at offset {}, not a multiple of {}",
             out_.source, view.name, offsets_[i], out_.alignment);
      }
      const uint64_t found = available > offsets_[i] ? available - offsets_[i] : 0;
      if (found < sizes_[i] && missing_ == MissingData::kAllow) {
        out_.data_missing = true;
        continue;
      }
      if (found < sizes_[i]) {
        Fail(ErrorKind::kBadFile,
             "{}: the file is truncated: tensor '{}' needs {} bytes, {} are there (file size {}); "
             "fetch the file again",
             out_.source, view.name, sizes_[i], found, bytes_.size());
      }
      view.data = bytes_.subspan(base + offsets_[i], sizes_[i]);
    }
    CheckOverlaps();
  }

  void CheckOverlaps() const {
    std::vector<size_t> order(offsets_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(),
              [this](size_t a, size_t b) { return offsets_[a] < offsets_[b]; });
    for (size_t i = 1; i < order.size(); ++i) {
      const size_t before = order[i - 1];
      if (offsets_[before] + sizes_[before] > offsets_[order[i]]) {
        Fail(ErrorKind::kBadFile, "{}: tensors '{}' and '{}' overlap", out_.source,
             out_.tensors[before].name, out_.tensors[order[i]].name);
      }
    }
  }

  std::span<const std::byte> bytes_;
  GgufContents out_;
  Cursor cursor_;
  const MissingData missing_;
  uint64_t n_tensors_ = 0;
  uint64_t n_metadata_ = 0;
  std::unordered_set<std::string> keys_;
  std::unordered_set<std::string> names_;
  std::vector<uint64_t> offsets_;
  std::vector<uint64_t> sizes_;
};

Json ScalarToJson(GgufType type, const std::byte* data) {
  switch (type) {
    case GgufType::kU8:
      return Load<uint8_t>(data);
    case GgufType::kI8:
      return Load<int8_t>(data);
    case GgufType::kU16:
      return Load<uint16_t>(data);
    case GgufType::kI16:
      return Load<int16_t>(data);
    case GgufType::kU32:
      return Load<uint32_t>(data);
    case GgufType::kI32:
      return Load<int32_t>(data);
    case GgufType::kF32:
      return Load<float>(data);
    case GgufType::kBool:
      return Load<uint8_t>(data) != 0;
    case GgufType::kU64:
      return Load<uint64_t>(data);
    case GgufType::kI64:
      return Load<int64_t>(data);
    case GgufType::kF64:
      return Load<double>(data);
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return Json(Json::value_t::discarded);
}

}  // namespace

Json GgufValue::ToJson(uint64_t max_items) const {
  if (type == GgufType::kString) {
    return std::string(reinterpret_cast<const char*>(payload.data()), payload.size());
  }
  if (type != GgufType::kArray) return ScalarToJson(type, payload.data());
  if (count > max_items || element == GgufType::kArray) return Json(Json::value_t::discarded);
  if (element == GgufType::kString) return Strings();
  Json list = Json::array();
  for (uint64_t i = 0; i < count; ++i) {
    list.push_back(ScalarToJson(element, payload.data() + i * ScalarBytes(element)));
  }
  return list;
}

std::vector<std::string> GgufValue::Strings() const {
  HADAL_CHECK(type == GgufType::kArray && element == GgufType::kString);
  std::vector<std::string> strings;
  strings.reserve(count);
  const std::byte* data = payload.data();
  for (uint64_t i = 0; i < count; ++i) {
    const auto size = Load<uint64_t>(data);
    strings.emplace_back(reinterpret_cast<const char*>(data + 8), size);
    data += 8 + size;
  }
  return strings;
}

const GgufValue* GgufContents::Find(std::string_view key) const {
  for (const auto& [name, value] : metadata) {
    if (name == key) return &value;
  }
  return nullptr;
}

GgufContents ParseGguf(std::span<const std::byte> bytes, const std::string& source,
                       MissingData missing) {
  return Parser(bytes, source, missing).Run();
}

uint32_t ToGgufType(DType type) {
  for (const TypeId& entry : kTypeIds) {
    if (entry.type == type) return entry.id;
  }
  Fail(ErrorKind::kUnsupported, "GGUF has no type for {}", Name(type));
}

DType FromGgufType(uint32_t type, const std::string& place) {
  for (const TypeId& entry : kTypeIds) {
    if (entry.id == type) return entry.type;
  }
  for (const ForeignType& entry : kForeignTypes) {
    if (entry.id != type) continue;
    Fail(ErrorKind::kUnsupported,
         "{} has type {} ({}), which is not supported; take the model in another quantization",
         place, entry.name, type);
  }
  Fail(ErrorKind::kBadFile, "{} has the unknown type {}", place, type);
}

}  // namespace hadal
