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

// What follows "Scheme " in an Authorization header.
std::optional<std::string_view> Credentials(std::string_view header, std::string_view scheme) {
  if (!EqualsIgnoringCase(header.substr(0, scheme.size()), scheme)) return std::nullopt;
  return Trim(header.substr(scheme.size()));
}

// Empty for what is not base64.
std::string DecodeBase64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text.substr(0, text.find('='))) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return {};
    bits = bits << 6 | static_cast<uint32_t>(digit);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    bytes.push_back(static_cast<char>(bits >> n_bits & 0xFF));
  }
  return bytes;
}

std::string PresentedKey(const Headers& headers) {
  if (const auto authorization = headers.Find("authorization")) {
    if (const auto key = Credentials(*authorization, "Bearer ")) return std::string(*key);
    // A browser asks its user for a name and a password: the password is the key.
    if (const auto pair = Credentials(*authorization, "Basic ")) {
      const std::string decoded = DecodeBase64(*pair);
      const size_t colon = decoded.find(':');
      return colon == std::string::npos ? std::string() : decoded.substr(colon + 1);
    }
  }
  return std::string(headers.Find("x-api-key").value_or(std::string_view{}));
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
  const std::string presented = PresentedKey(headers);
  std::optional<size_t> found;
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (EqualInConstantTime(presented, keys_[i])) found = i;
  }
  return found;
}

}  // namespace hadal
