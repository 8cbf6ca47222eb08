#include "http/message.h"

#include <fmt/core.h>

#include <algorithm>

namespace hadal {
namespace {

struct Phrase {
  int status;
  std::string_view text;
};

constexpr Phrase kPhrases[] = {
    {100, "Continue"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
};

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

void AppendSafely(std::string& out, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += (byte < 0x20 && c != '\t') || byte == 0x7f ? '?' : c;
  }
}

}  // namespace

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return Lower(x) == Lower(y); });
}

std::optional<std::string_view> Headers::Find(std::string_view name) const {
  for (const auto& [key, value] : items_) {
    if (EqualsIgnoringCase(key, name)) return value;
  }
  return std::nullopt;
}

std::optional<std::string_view> HttpRequest::Query(std::string_view name) const {
  for (const auto& [query_name, value] : query) {
    if (query_name == name) return value;
  }
  return std::nullopt;
}

std::string_view HttpRequest::Parameter(std::string_view name) const {
  for (const auto& [parameter, value] : parameters) {
    if (parameter == name) return value;
  }
  return {};
}

int StatusOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
    case ErrorKind::kInvalid:
    case ErrorKind::kUnsupported:
      return 400;
    case ErrorKind::kNotFound:
      return 404;
    case ErrorKind::kResource:
    case ErrorKind::kCancelled:
      return 503;
    case ErrorKind::kBadFile:
    case ErrorKind::kNumeric:
    case ErrorKind::kIo:
      return 500;
  }
  return 500;
}

std::string_view ReasonPhrase(int status) {
  for (const Phrase& phrase : kPhrases) {
    if (phrase.status == status) return phrase.text;
  }
  return "Unknown";
}

std::string SerializeHead(int status, const Headers& headers) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", status, ReasonPhrase(status));
  for (const auto& [name, value] : headers.items()) {
    AppendSafely(head, name);
    head += ": ";
    AppendSafely(head, value);
    head += "\r\n";
  }
  head += "\r\n";
  return head;
}

}  // namespace hadal
