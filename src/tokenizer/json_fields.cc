#include "tokenizer/json_fields.h"

#include "base/error.h"

namespace hadal {

const Json* FindMember(const Json& object, const std::string& key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

const Json& GetMember(const Json& object, const std::string& key, const std::string& where) {
  const Json* member = FindMember(object, key);
  if (member == nullptr) Fail(ErrorKind::kBadFile, "{} has no \"{}\"", where, key);
  return *member;
}

std::string GetString(const Json& object, const std::string& key, const std::string& where) {
  const Json& member = GetMember(object, key, where);
  if (!member.is_string()) Fail(ErrorKind::kBadFile, "{}: \"{}\" is not a string", where, key);
  return member.get<std::string>();
}

bool GetBool(const Json& object, const std::string& key, const std::string& where) {
  const Json& member = GetMember(object, key, where);
  if (!member.is_boolean()) {
    Fail(ErrorKind::kBadFile, "{}: \"{}\" is neither true nor false", where, key);
  }
  return member.get<bool>();
}

bool GetBool(const Json& object, const std::string& key, bool if_missing,
             const std::string& where) {
  return FindMember(object, key) == nullptr ? if_missing : GetBool(object, key, where);
}

const Json& GetArray(const Json& object, const std::string& key, const std::string& where) {
  const Json& member = GetMember(object, key, where);
  if (!member.is_array()) Fail(ErrorKind::kBadFile, "{}: \"{}\" is not a list", where, key);
  return member;
}

int64_t GetIndex(const Json& value, int64_t limit, const std::string& where) {
  const bool is_index =
      value.is_number_unsigned() && value.get<uint64_t>() < static_cast<uint64_t>(limit);
  if (!is_index) {
    Fail(
        ErrorKind::kBadFile, "{}: {} is not a whole number from 0 to {}", where,
        value.is_primitive() ? value.dump(-1, ' ', true, Json::error_handler_t::replace) : "a list",
        limit - 1);
  }
  return value.get<int64_t>();
}

}  // namespace hadal
