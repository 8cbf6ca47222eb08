// The functions every template finds.
#pragma once

#include <string_view>

#include "chat/runtime.h"

namespace hadal::jinja {

// range, dict, namespace, cycler, joiner, raise_exception, strftime_now; null for other names.
const Function* FindFunction(std::string_view name);

}  // namespace hadal::jinja
