#include "formats/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/json.h"

namespace hadal {
namespace {

// The format's own limit.
constexpr uint64_t kMaxHeader = 100'000'000;

struct TypeName {
  std::string_view name;
  DType type;
};
constexpr std::array kTypeNames = {
    TypeName{"F32", DType::kF32},   TypeName{"F16", DType::kF16},
    TypeName{"BF16", DType::kBF16}, TypeName{"F8_E4M3", DType::kF8E4M3},
    TypeName{"I8", DType::kI8},     TypeName{"U8", DType::kU8},
    TypeName{"I16", DType::kI16},   TypeName{"I32", DType::kI32},
    TypeName{"I64", DType::kI64},   TypeName{"F64", DType::kF64},
};

std::string_view Header(std::span<const std::byte> bytes, const std::string& source) {
  uint64_t size = 0;
  if (bytes.size() < 8) {
    Fail(ErrorKind::kBadFile, "{}: not a safetensors file: only {} bytes", source, bytes.size());
  }
  std::memcpy(&size, bytes.data(), 8);
  if (size > kMaxHeader) {
    Fail(ErrorKind::kBadFile,
         "{}: not a safetensors file: its header would be {} bytes, more than the {} possible",
         source, size, kMaxHeader);
  }
  if (size > bytes.size() - 8) {
    Fail(ErrorKind::kBadFile, "{}: the file ends inside its header: {} bytes expected, {} there",
         source, size, bytes.size() - 8);
  }
  return {reinterpret_cast<const char*>(bytes.data()) + 8, size};
}

struct Placed {
  uint64_t begin;
  uint64_t end;
  TensorView view;
};

uint64_t Unsigned(const Json& value, const std::string& place, std::string_view what) {
  if (!value.is_number_unsigned()) {
    Fail(ErrorKind::kBadFile, "{}: {} must hold integers of 0 or more", place, what);
  }
  return value.get<uint64_t>();
}

const Json& Member(const Json& entry, const char* name, const std::string& place) {
  const auto it = entry.find(name);
  if (it == entry.end()) Fail(ErrorKind::kBadFile, "{}: '{}' is missing", place, name);
  return *it;
}

DType ReadType(const Json& value, const std::string& place) {
  if (!value.is_string()) Fail(ErrorKind::kBadFile, "{}: 'dtype' must be a string", place);
  const auto& name = value.get_ref<const std::string&>();
  for (const TypeName& entry : kTypeNames) {
    if (entry.name == name) return entry.type;
  }
  Fail(ErrorKind::kUnsupported, "{} has the type {}, which is not supported", place, name);
}

Placed ReadEntry(const std::string& name, const Json& entry, const std::string& source) {
  const std::string place = fmt::format("{}: tensor '{}'", source, name);
  if (!entry.is_object()) Fail(ErrorKind::kBadFile, "{}: its entry is not an object", place);
  Placed out{0, 0, {}};
  out.view.name = name;
  out.view.dtype = ReadType(Member(entry, "dtype", place), place);
  const Json& shape = Member(entry, "shape", place);
  if (!shape.is_array() || shape.size() > 8) {
    Fail(ErrorKind::kBadFile, "{}: 'shape' must be a list of up to 8 dimensions", place);
  }
  uint64_t elements = 1;
  for (const Json& item : shape) {
    const uint64_t dim = Unsigned(item, place, "'shape'");
    if (dim == 0) Fail(ErrorKind::kBadFile, "{} has a dimension of length 0", place);
    if (dim > (uint64_t{1} << 60) / elements) {
      Fail(ErrorKind::kBadFile, "{} has more than 2^60 elements", place);
    }
    elements *= dim;
    out.view.shape.push_back(dim);
  }
  const Json& offsets = Member(entry, "data_offsets", place);
  if (!offsets.is_array() || offsets.size() != 2) {
    Fail(ErrorKind::kBadFile, "{}: 'data_offsets' must be [begin, end]", place);
  }
  out.begin = Unsigned(offsets[0], place, "'data_offsets'");
  out.end = Unsigned(offsets[1], place, "'data_offsets'");
  const uint64_t size = elements * Info(out.view.dtype).block_bytes;
  if (out.end < out.begin || out.end - out.begin != size) {
    Fail(ErrorKind::kBadFile, "{}: its shape and type need {} bytes, its offsets are {} to {}",
         place, size, out.begin, out.end);
  }
  return out;
}

}  // namespace

std::vector<TensorView> ParseSafetensors(std::span<const std::byte> bytes,
                                         const std::string& source, MissingData missing) {
  const std::string_view header = Header(bytes, source);
  const Json directory = ParseJson(header, source + ": header");
  if (!directory.is_object()) Fail(ErrorKind::kBadFile, "{}: header is not an object", source);

  std::vector<Placed> placed;
  for (const auto& [name, entry] : directory.items()) {
    if (name != "__metadata__") placed.push_back(ReadEntry(name, entry, source));
  }
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
  const auto data = bytes.subspan(8 + header.size());
  uint64_t next = 0;
  std::vector<TensorView> views;
  for (Placed& entry : placed) {
    if (entry.begin != next) {
      Fail(ErrorKind::kBadFile, "{}: tensor '{}' begins at {}, but the one before it ends at {}",
           source, entry.view.name, entry.begin, next);
    }
    const bool there = entry.end <= data.size();
    if (!there && missing == MissingData::kRefuse) {
      Fail(ErrorKind::kBadFile,
           "{}: the file is truncated: tensor '{}' needs {} bytes, {} are there; fetch it again",
           source, entry.view.name, entry.end - entry.begin,
           data.size() > entry.begin ? data.size() - entry.begin : 0);
    }
    if (there) entry.view.data = data.subspan(entry.begin, entry.end - entry.begin);
    next = entry.end;
    views.push_back(std::move(entry.view));
  }
  if (next < data.size() || (next > data.size() && missing == MissingData::kRefuse)) {
    Fail(ErrorKind::kBadFile, "{}: {} bytes after the last tensor", source, data.size() - next);
  }
  return views;
}

}  // namespace hadal
