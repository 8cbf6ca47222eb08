#include "http/api_keys.h"

#include <set>

#include "base/error.h"
#include "base/mapped_file.h"

namespace hadal {
namespace {

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// Takes the same time for every `key` of one length, whatever it holds.
bool EqualInConstantTime(std::string_view presented, std::string_view key) {
  volatile unsigned char difference = presented.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < presented.size(); ++i) {
    const auto a = static_cast<unsigned char>(presented[i]);
    const auto b = static_cast<unsigned char>(key[i % key.size()]);
    difference = static_cast<unsigned char>(difference | (a ^ b));
  }
  return difference == 0;
}

std::string_view PresentedKey(const Headers& headers) {
  if (const auto authorization = headers.Find("authorization")) {
    constexpr std::string_view kScheme = "Bearer ";
    if (EqualsIgnoringCase(authorization->substr(0, kScheme.size()), kScheme)) {
      return Trim(authorization->substr(kScheme.size()));
    }
  }
  return headers.Find("x-api-key").value_or(std::string_view{});
}

}  // namespace

ApiKeys::ApiKeys(std::vector<std::string> keys) : keys_(std::move(keys)) {
  std::set<std::string_view> seen;
  for (size_t i = 0; i < keys_.size(); ++i) {
    const std::string& key = keys_[i];
    if (key.empty()) Fail(ErrorKind::kUsage, "API key {} is empty", i + 1);
    for (const char c : key) {
      if (c <= ' ' || c > '~') {
        Fail(ErrorKind::kUsage, "API key {} has a character other than printable ASCII", i + 1);
      }
    }
    if (!seen.insert(key).second) Fail(ErrorKind::kUsage, "API key {} occurs twice", i + 1);
  }
}

std::vector<std::string> ApiKeys::ReadFile(const std::filesystem::path& path) {
  const std::string text = ReadTextFile(path, 1 << 20);
  std::vector<std::string> keys;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = Trim(std::string_view(text).substr(at, end - at));
    if (!line.empty() && line[0] != '#') keys.emplace_back(line);
    at = end + 1;
  }
  if (keys.empty()) Fail(ErrorKind::kUsage, "{} holds no API key", path.string());
  return keys;
}

std::optional<size_t> ApiKeys::Find(const Headers& headers) const {
  const std::string_view presented = PresentedKey(headers);
  std::optional<size_t> found;
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (EqualInConstantTime(presented, keys_[i])) found = i;
  }
  return found;
}

}  // namespace hadal
