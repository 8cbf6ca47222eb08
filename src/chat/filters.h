// Jinja's filters and tests, each one table.
#pragma once

#include <string_view>

#include "chat/runtime.h"

namespace hadal::jinja {

// Raise when no filter or test has that name.
Value ApplyFilter(Runtime& runtime, std::string_view name, const Value& input, const Args& args);
bool ApplyTest(Runtime& runtime, std::string_view name, const Value& input, const Args& args);

// The tables behind ApplyFilter; null when the name is not there.
using FilterBody = Value (*)(Runtime&, const Value& input, const Args&);
FilterBody FindTextFilter(std::string_view name);
FilterBody FindListFilter(std::string_view name);
bool HasFilter(std::string_view name);
bool HasTest(std::string_view name);

}  // namespace hadal::jinja
