#include "formats/config_reader.h"

#include <algorithm>
#include <cmath>

namespace hadal {
namespace {

// A value as it stands in the file, cut to a length that fits in a message.
std::string Shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

constexpr uint64_t kMaxTokens = uint64_t{1} << 40;

}  // namespace

ConfigReader::ConfigReader(const Json& object, std::string source, std::string prefix)
    : object_(&object), source_(std::move(source)), prefix_(std::move(prefix)) {
  if (!object.is_object()) {
    Fail(ErrorKind::kBadFile, "{}: expected a JSON object{}, found {}", source_,
         prefix_.empty() ? "" : " at '" + prefix_ + "'", Shown(object));
  }
}

std::string ConfigReader::Place(std::string_view field) const {
  return fmt::format("{}: field '{}{}' ", source_, prefix_, field);
}

bool ConfigReader::Has(std::string_view field) const {
  return object_->find(std::string(field)) != object_->end();
}

bool ConfigReader::IsNull(std::string_view field) const {
  return Find(field) == nullptr;
}

const Json* ConfigReader::Find(std::string_view field) const {
  const auto it = object_->find(std::string(field));
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

uint64_t ConfigReader::Integer(std::string_view field, const Json& value, uint64_t min,
                               uint64_t max) const {
  if (value.is_number_integer() && (value.is_number_unsigned() || value.get<int64_t>() >= 0)) {
    const auto number = value.get<uint64_t>();
    if (number >= min && number <= max) return number;
  }
  Bad(field, "must be an integer from {} to {}, not {}", min, max, Shown(value));
}

double ConfigReader::Finite(std::string_view field, const Json& value) const {
  if (!value.is_number() || !std::isfinite(value.get<double>())) {
    Bad(field, "must be a finite number, not {}", Shown(value));
  }
  return value.get<double>();
}

uint32_t ConfigReader::Dimension(std::string_view field) const {
  if (const auto value = OptionalDimension(field)) return *value;
  Bad(field, "is missing");
}

std::optional<uint32_t> ConfigReader::OptionalDimension(std::string_view field) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::nullopt;
  return static_cast<uint32_t>(Integer(field, *value, 1, kMaxDimension));
}

uint32_t ConfigReader::UniformDimension(std::string_view field) const {
  if (const auto value = OptionalUniformDimension(field)) return *value;
  Bad(field, "is missing");
}

std::optional<uint32_t> ConfigReader::OptionalUniformDimension(std::string_view field) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) return OptionalDimension(field);
  if (value->empty()) Bad(field, "is an empty list");
  for (const Json& item : *value) {
    if (item != value->front()) Unsupported(field, "differs between layers");
  }
  return static_cast<uint32_t>(Integer(field, value->front(), 1, kMaxDimension));
}

uint32_t ConfigReader::Count(std::string_view field) const {
  if (const auto value = OptionalCount(field)) return *value;
  Bad(field, "is missing");
}

std::optional<uint32_t> ConfigReader::OptionalCount(std::string_view field) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::nullopt;
  return static_cast<uint32_t>(Integer(field, *value, 0, kMaxDimension));
}

uint64_t ConfigReader::Tokens(std::string_view field) const {
  if (const auto value = OptionalTokens(field)) return *value;
  Bad(field, "is missing");
}

std::optional<uint64_t> ConfigReader::OptionalTokens(std::string_view field) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::nullopt;
  return Integer(field, *value, 1, kMaxTokens);
}

double ConfigReader::Positive(std::string_view field) const {
  if (const auto value = OptionalPositive(field)) return *value;
  Bad(field, "is missing");
}

std::optional<double> ConfigReader::OptionalPositive(std::string_view field) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::nullopt;
  const double number = Finite(field, *value);
  if (!(number > 0 && number < 1e12)) {
    Bad(field, "must be greater than 0 and less than 1e12, not {}", Shown(*value));
  }
  return number;
}

std::optional<double> ConfigReader::OptionalNumber(std::string_view field) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::nullopt;
  return Finite(field, *value);
}

std::optional<bool> ConfigReader::OptionalFlag(std::string_view field) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) Bad(field, "must be true or false, not {}", Shown(*value));
  return value->get<bool>();
}

std::string ConfigReader::Text(std::string_view field) const {
  if (auto value = OptionalText(field)) return *value;
  Bad(field, "is missing");
}

std::optional<std::string> ConfigReader::OptionalText(std::string_view field) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) Bad(field, "must be a string, not {}", Shown(*value));
  return value->get<std::string>();
}

std::vector<double> ConfigReader::PositiveList(std::string_view field) const {
  const Json* value = Find(field);
  if (value == nullptr) Bad(field, "is missing");
  if (!value->is_array()) Bad(field, "must be a list of numbers, not {}", Shown(*value));
  std::vector<double> numbers;
  for (const Json& item : *value) {
    const double number = Finite(field, item);
    if (number <= 0) Bad(field, "holds {}, but its numbers must be positive", Shown(item));
    numbers.push_back(number);
  }
  return numbers;
}

std::vector<std::string> ConfigReader::TextList(std::string_view field) const {
  const Json* value = Find(field);
  if (value == nullptr) return {};
  if (!value->is_array()) Bad(field, "must be a list of strings, not {}", Shown(*value));
  std::vector<std::string> texts;
  for (const Json& item : *value) {
    if (!item.is_string()) Bad(field, "holds {}, but its items must be strings", Shown(item));
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

std::vector<int32_t> ConfigReader::TokenIds(std::string_view field) const {
  const Json* value = Find(field);
  if (value == nullptr) return {};
  constexpr uint64_t kMax = 0x7FFFFFFF;
  std::vector<int32_t> ids;
  if (!value->is_array()) {
    ids.push_back(static_cast<int32_t>(Integer(field, *value, 0, kMax)));
    return ids;
  }
  for (const Json& item : *value) {
    ids.push_back(static_cast<int32_t>(Integer(field, item, 0, kMax)));
  }
  return ids;
}

std::optional<ConfigReader> ConfigReader::OptionalObject(std::string_view field) const {
  const Json* value = Find(field);
  if (value == nullptr) return std::nullopt;
  return ConfigReader(*value, source_, fmt::format("{}{}.", prefix_, field));
}

void ConfigReader::Expect(std::string_view field, const Json& expected,
                          std::string_view meaning) const {
  const Json* value = Find(field);
  if (value == nullptr || *value == expected) return;
  Unsupported(field, "is {}; {}", Shown(*value), meaning);
}

void ConfigReader::RejectUnknown(std::initializer_list<std::string_view> known) const {
  for (const auto& [key, value] : object_->items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      Unsupported(key, "is not one that Hadal knows (its value is {})", Shown(value));
    }
  }
}

}  // namespace hadal
