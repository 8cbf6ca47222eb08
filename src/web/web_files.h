// The page that a server shows at "/": files that were embedded when it was built.
#pragma once

#include <span>
#include <string_view>

namespace hadal {

struct WebFile {
  std::string_view path;  // "/", "/app.js"
  std::string_view content_type;
  std::string_view bytes;
};

std::span<const WebFile> WebFiles();

}  // namespace hadal
