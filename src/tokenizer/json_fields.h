// Reading members of tokenizer.json: a missing or mistyped one is an error that names it.
#pragma once

#include <string>

#include "base/json.h"

namespace hadal {

// `where` says which part of the file `object` is ("pre_tokenizer"), for messages. All throw
// Error(kBadFile).
const Json& GetMember(const Json& object, const std::string& key, const std::string& where);
std::string GetString(const Json& object, const std::string& key, const std::string& where);
bool GetBool(const Json& object, const std::string& key, const std::string& where);
bool GetBool(const Json& object, const std::string& key, bool if_missing, const std::string& where);
const Json& GetArray(const Json& object, const std::string& key, const std::string& where);
// A number in [0, limit).
int64_t GetIndex(const Json& value, int64_t limit, const std::string& where);

// null when the member is missing or null.
const Json* FindMember(const Json& object, const std::string& key);

}  // namespace hadal
