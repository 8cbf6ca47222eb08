// Tokens to tree.
#pragma once

#include <memory>
#include <string_view>

#include "chat/ast.h"

namespace hadal::jinja {

// Throws Error(kInvalid) naming the line. `max_depth` bounds the tree.
std::unique_ptr<const Program> ParseTemplate(std::string_view source, int max_depth);

}  // namespace hadal::jinja
