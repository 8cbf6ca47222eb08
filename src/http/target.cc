#include "http/target.h"

namespace hadal {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The part before `separator`; `rest` becomes what follows it, or empty.
std::string_view Cut(std::string_view& rest, char separator) {
  const size_t at = rest.find(separator);
  const std::string_view part = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view{} : rest.substr(at + 1);
  return part;
}

// "http://host/path" -> "/path"; empty when there is no scheme that we serve.
std::string_view WithoutOrigin(std::string_view text) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (text.substr(0, scheme.size()) != scheme) continue;
    const std::string_view rest = text.substr(scheme.size());
    const size_t end = rest.find_first_of("/?");
    if (end == std::string_view::npos) return "/";
    return rest.substr(end);
  }
  return {};
}

}  // namespace

std::optional<std::string> PercentDecode(std::string_view text, bool plus_is_space) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      const int high = i + 1 < text.size() ? HexDigit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
      if (high < 0 || low < 0 || high + low == 0) return std::nullopt;
      result += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      result += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return result;
}

std::optional<Target> ParseTarget(std::string_view text) {
  Target target;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || byte == 0x7f) return std::nullopt;
  }
  if (text == "*") {
    target.path = "*";
    return target;
  }
  if (text.empty() || text[0] != '/') {
    text = WithoutOrigin(text);
    if (text.empty()) return std::nullopt;
  }
  std::string_view query = text.substr(0, text.find('#'));  // clients should not send a fragment
  std::string_view path = Cut(query, '?');
  while (!path.empty()) {
    const std::string_view part = Cut(path, '/');
    if (part.empty()) continue;
    std::optional<std::string> segment = PercentDecode(part, /*plus_is_space=*/false);
    if (!segment) return std::nullopt;
    target.path += "/" + *segment;
    target.segments.push_back(*std::move(segment));
  }
  if (target.path.empty()) target.path = "/";
  while (!query.empty()) {
    std::string_view value = Cut(query, '&');
    if (value.empty()) continue;
    const std::string_view name = Cut(value, '=');
    std::optional<std::string> decoded_name = PercentDecode(name, /*plus_is_space=*/true);
    std::optional<std::string> decoded_value = PercentDecode(value, /*plus_is_space=*/true);
    if (!decoded_name || !decoded_value) return std::nullopt;
    target.query.emplace_back(*std::move(decoded_name), *std::move(decoded_value));
  }
  return target;
}

}  // namespace hadal
