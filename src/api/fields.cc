#include "api/fields.h"

#include <fmt/core.h>

#include <cmath>

#include "api/api_error.h"

namespace hadal::api {
namespace {

constexpr double kMaxExactInteger = 9007199254740992.0;  // 2^53

// The value as an integer, when it is one.
std::optional<int64_t> AsInteger(const OrderedJson& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  if (std::trunc(number) != number || std::abs(number) > kMaxExactInteger) return std::nullopt;
  return static_cast<int64_t>(number);
}

int32_t TokenIdOf(const OrderedJson& value, uint32_t vocab, const std::string& where) {
  const std::optional<int64_t> id = AsInteger(value);
  if (!id) {
    throw ApiError(400, fmt::format("{} must be token ids, not {}", where, value.type_name()),
                   where, "invalid_type");
  }
  if (*id < 0 || *id >= vocab) {
    throw ApiError(400,
                   fmt::format("{} contains token {}; the vocabulary has tokens 0 to {}", where,
                               *id, vocab - 1),
                   where, "invalid_value");
  }
  return static_cast<int32_t>(*id);
}

}  // namespace

Fields::Fields(const OrderedJson& object, std::string path)
    : object_(object), path_(std::move(path)) {
  if (object.is_object()) return;
  const std::string name = path_.empty() ? "" : path_.substr(0, path_.size() - 1);
  throw ApiError(400,
                 fmt::format("{} must be a JSON object, not {}",
                             name.empty() ? "the request body" : name, object.type_name()),
                 name, "invalid_type");
}

const OrderedJson* Fields::Find(std::string_view key) {
  read_.emplace(key);
  const auto found = object_.find(std::string(key));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> Fields::Bool(std::string_view key) {
  const OrderedJson* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) WrongType(key, *value, "true or false");
  return value->get<bool>();
}

std::optional<double> Fields::Number(std::string_view key, double min, double max) {
  const OrderedJson* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) WrongType(key, *value, "a number");
  const auto number = value->get<double>();
  if (!(number >= min && number <= max)) {
    Refuse(key, fmt::format("is {}; it must be between {} and {}", number, min, max));
  }
  return number;
}

std::optional<int64_t> Fields::Integer(std::string_view key, int64_t min, int64_t max) {
  const OrderedJson* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) WrongType(key, *value, "an integer");
  const std::optional<int64_t> number = AsInteger(*value);
  if (!number) WrongType(key, *value, "an integer of 64 bits");
  if (*number < min || *number > max) {
    Refuse(key, fmt::format("is {}; it must be between {} and {}", *number, min, max));
  }
  return number;
}

std::optional<std::string> Fields::String(std::string_view key) {
  const OrderedJson* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) WrongType(key, *value, "a string");
  return value->get<std::string>();
}

std::optional<std::vector<std::string>> Fields::Strings(std::string_view key, size_t max_count) {
  const OrderedJson* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return std::vector<std::string>{value->get<std::string>()};
  if (!value->is_array()) WrongType(key, *value, "a string or a list of strings");
  if (value->size() > max_count) {
    Refuse(key, fmt::format("has {} entries; at most {} are allowed", value->size(), max_count));
  }
  std::vector<std::string> texts;
  for (const OrderedJson& entry : *value) {
    if (!entry.is_string()) WrongType(key, entry, "a list of strings");
    texts.push_back(entry.get<std::string>());
  }
  return texts;
}

void Fields::Refuse(std::string_view key, const std::string& what, std::string_view code) const {
  const std::string name = path_ + std::string(key);
  throw ApiError(400, fmt::format("{} {}", name, what), name, std::string(code));
}

void Fields::WrongType(std::string_view key, const OrderedJson& value,
                       std::string_view expected) const {
  Refuse(key, fmt::format("must be {}, not {}", expected, value.type_name()), "invalid_type");
}

std::vector<std::string> Fields::Unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_.items()) {
    if (!read_.contains(name)) names.push_back(path_ + name);
  }
  return names;
}

std::vector<int32_t> TokenIdsOf(const OrderedJson& value, uint32_t vocab,
                                const std::string& where) {
  if (!value.is_array()) {
    throw ApiError(400,
                   fmt::format("{} must be a list of token ids, not {}", where, value.type_name()),
                   where, "invalid_type");
  }
  std::vector<int32_t> ids;
  ids.reserve(value.size());
  for (const OrderedJson& entry : value) ids.push_back(TokenIdOf(entry, vocab, where));
  return ids;
}

}  // namespace hadal::api
