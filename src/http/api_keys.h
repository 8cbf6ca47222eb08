// Who may use the server.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace hadal {

// Several keys; a key's index names the tenant. No keys: everybody is welcome, as tenant "none".
class ApiKeys {
 public:
  ApiKeys() = default;
  // Throws Error(kUsage) for an empty key, one with characters that headers cannot carry, and one
  // that occurs twice. The message never shows a key.
  explicit ApiKeys(std::vector<std::string> keys);

  // One key a line; blank lines and lines that begin with '#' are skipped. Throws Error(kUsage) as
  // above or when there is no key, and whatever ReadTextFile throws.
  static std::vector<std::string> ReadFile(const std::filesystem::path& path);

  bool empty() const { return keys_.empty(); }
  size_t size() const { return keys_.size(); }

  // Index of the key in "Authorization: Bearer KEY", "x-api-key: KEY", or a browser's
  // "Authorization: Basic" with any name and the key as the password. Compares with every key, in a
  // time that depends on none of them.
  std::optional<size_t> Find(const Headers& headers) const;

 private:
  std::vector<std::string> keys_;
};

}  // namespace hadal
