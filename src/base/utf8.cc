#include "base/utf8.h"

namespace hadal {
namespace {

struct Lead {
  uint8_t size;        // 0: not a lead byte
  uint8_t second_min;  // allowed range of the second byte (Unicode 15, table 3-7)
  uint8_t second_max;
};

Lead ClassifyLead(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Number of bytes at `pos` that form a prefix of a well-formed sequence (its maximal subpart).
uint8_t MaximalSubpart(std::string_view text, size_t pos, const Lead& lead) {
  uint8_t n = 1;
  while (n < lead.size && pos + n < text.size()) {
    const auto byte = static_cast<uint8_t>(text[pos + n]);
    const uint8_t low = n == 1 ? lead.second_min : 0x80;
    const uint8_t high = n == 1 ? lead.second_max : 0xBF;
    if (byte < low || byte > high) break;
    ++n;
  }
  return n;
}

}  // namespace

Utf8Char DecodeUtf8(std::string_view text, size_t pos) {
  const auto first = static_cast<uint8_t>(text[pos]);
  const Lead lead = ClassifyLead(first);
  if (lead.size == 1) return {first, 1, true};
  if (lead.size == 0) return {kReplacementCharacter, 1, false};
  const uint8_t n = MaximalSubpart(text, pos, lead);
  if (n < lead.size) return {kReplacementCharacter, n, false};
  char32_t code = first & (0xFF >> (lead.size + 1));
  for (uint8_t i = 1; i < n; ++i) code = code << 6 | (static_cast<uint8_t>(text[pos + i]) & 0x3F);
  return {code, n, true};
}

void AppendUtf8(char32_t code, std::string& out) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

size_t FindInvalidUtf8(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = DecodeUtf8(text, pos);
    if (!c.valid) return pos;
    pos += c.size;
  }
  return std::string_view::npos;
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = DecodeUtf8(text, pos);
    if (c.valid) {
      out.append(text.substr(pos, c.size));
    } else {
      AppendUtf8(kReplacementCharacter, out);
    }
    pos += c.size;
  }
  return out;
}

size_t CompleteUtf8Prefix(std::string_view text) {
  const size_t window = text.size() < 3 ? text.size() : 3;
  for (size_t back = 1; back <= window; ++back) {
    const size_t pos = text.size() - back;
    const Lead lead = ClassifyLead(static_cast<uint8_t>(text[pos]));
    if (lead.size == 0) continue;  // perhaps a continuation byte: look further back
    const bool open = lead.size > back && MaximalSubpart(text, pos, lead) == back;
    return open ? pos : text.size();
  }
  return text.size();
}

}  // namespace hadal
