// Typed, range-checked reading of a model's configuration: config.json, or the metadata of a GGUF
// file seen as a JSON object. Every error names the file and the field.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace hadal {

// A view: the JSON object must outlive it. A field that is null counts as absent everywhere except
// in Has(). "Required" readers throw Error(kBadFile) when the field is absent; all throw it when
// the type or the range is wrong.
class ConfigReader {
 public:
  // `source` is the file, `prefix` stands before field names in messages ("rope_scaling.").
  // Throws Error(kBadFile) when `object` is not a JSON object.
  ConfigReader(const Json& object, std::string source, std::string prefix = "");

  bool Has(std::string_view field) const;     // present, even if null
  bool IsNull(std::string_view field) const;  // absent or null

  // A dimension: an integer in [1, kMaxDimension].
  uint32_t Dimension(std::string_view field) const;
  std::optional<uint32_t> OptionalDimension(std::string_view field) const;
  // A dimension that may be written as a list with one equal entry per layer.
  uint32_t UniformDimension(std::string_view field) const;
  std::optional<uint32_t> OptionalUniformDimension(std::string_view field) const;
  // A count: as a dimension, but zero is allowed.
  uint32_t Count(std::string_view field) const;
  std::optional<uint32_t> OptionalCount(std::string_view field) const;
  // A number of tokens: an integer in [1, 2^40].
  uint64_t Tokens(std::string_view field) const;
  std::optional<uint64_t> OptionalTokens(std::string_view field) const;
  // Finite numbers. Positive: > 0 and < 1e12.
  double Positive(std::string_view field) const;
  std::optional<double> OptionalPositive(std::string_view field) const;
  std::optional<double> OptionalNumber(std::string_view field) const;
  std::optional<bool> OptionalFlag(std::string_view field) const;
  std::string Text(std::string_view field) const;
  std::optional<std::string> OptionalText(std::string_view field) const;
  std::vector<double> PositiveList(std::string_view field) const;
  std::vector<std::string> TextList(std::string_view field) const;
  // An integer or a list of integers, each in [0, 2^31); empty when absent.
  std::vector<int32_t> TokenIds(std::string_view field) const;
  std::optional<ConfigReader> OptionalObject(std::string_view field) const;

  // Throws when the field is present and holds something else than `expected`: for features that
  // we do not have. `meaning` ends the message.
  void Expect(std::string_view field, const Json& expected, std::string_view meaning) const;
  // Throws on the first field that is not in `known`.
  void RejectUnknown(std::initializer_list<std::string_view> known) const;

  // "FILE: field 'prefix.name' ": how messages begin.
  std::string Place(std::string_view field) const;
  template <typename... Args>
  [[noreturn]] void Bad(std::string_view field, fmt::format_string<Args...> format,
                        Args&&... args) const {
    throw Error(ErrorKind::kBadFile,
                Place(field) + fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  [[noreturn]] void Unsupported(std::string_view field, fmt::format_string<Args...> format,
                                Args&&... args) const {
    throw Error(ErrorKind::kUnsupported,
                Place(field) + fmt::format(format, std::forward<Args>(args)...));
  }

  const std::string& source() const { return source_; }

  static constexpr uint32_t kMaxDimension = 1u << 28;

 private:
  const Json* Find(std::string_view field) const;  // null when absent or null
  uint64_t Integer(std::string_view field, const Json& value, uint64_t min, uint64_t max) const;
  double Finite(std::string_view field, const Json& value) const;

  const Json* object_;
  std::string source_;
  std::string prefix_;
};

}  // namespace hadal
