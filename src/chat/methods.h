// The methods of Python's str, list, tuple and dict that templates may call.
#pragma once

#include <string_view>

#include "chat/runtime.h"

namespace hadal::jinja {

// Null when values of this type have no such method.
const MethodEntry* FindMethod(const Value& self, std::string_view name);
const MethodEntry* FindStringMethod(std::string_view name);

}  // namespace hadal::jinja
