// UTF-8, decoded and checked by hand because every text path needs it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hadal {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

struct Utf8Char {
  char32_t code;  // kReplacementCharacter when !valid
  uint8_t size;   // bytes consumed, >= 1
  bool valid;     // false: ill-formed, or cut off by the end of the text
};

// Decodes the character at text[pos]; pos < text.size(). An ill-formed sequence consumes its
// maximal subpart (Unicode 15, section 3.9, as the WHATWG decoder does).
Utf8Char DecodeUtf8(std::string_view text, size_t pos);

void AppendUtf8(char32_t code, std::string& out);

// Byte position of the first ill-formed sequence, or npos.
size_t FindInvalidUtf8(std::string_view text);

// Each ill-formed sequence becomes U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view text);

// Length of the longest prefix that does not end inside a character that later bytes could still
// complete. An ill-formed tail counts as complete: it will never become a character.
size_t CompleteUtf8Prefix(std::string_view text);

}  // namespace hadal
