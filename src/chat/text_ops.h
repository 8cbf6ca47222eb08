// Python's string operations on marked text. Positions are bytes unless a name says code points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "chat/runtime.h"

namespace hadal::jinja {

bool IsSpace(char32_t code);  // str.isspace

// The range that is left after stripping whitespace, or any character of `*chars` when not null.
struct StripSides {
  bool left;
  bool right;
};
ByteRange StripRange(std::string_view text, const std::string_view* chars, StripSides sides);

size_t CountCodePoints(std::string_view text);
bool IsAscii(std::string_view text);
// Byte offsets of the characters' starts, and text.size() at the end. Charges the runtime.
std::vector<size_t> CharacterOffsets(Runtime& runtime, std::string_view text);

// str.split / rsplit: ranges of the pieces. A null separator splits at runs of whitespace.
// `limit` < 0: no limit. The separator must not be empty.
std::vector<ByteRange> SplitRanges(Runtime& runtime, std::string_view text,
                                   const std::string_view* separator, int64_t limit,
                                   bool from_right);
std::vector<ByteRange> SplitLines(Runtime& runtime, std::string_view text, bool keep_ends);

// At most `limit` replacements, all when < 0. An empty `from` matches between characters.
Value ReplaceText(Runtime& runtime, const MarkedText& text, std::string_view from,
                  const MarkedText& to, int64_t limit);

enum class CaseOp : uint8_t { kUpper, kLower, kCapitalize, kSwap, kTitleMethod, kTitleFilter };
// Every character changes case by itself and keeps its mark.
Value ChangeCase(Runtime& runtime, const MarkedText& text, CaseOp op);

// HTML escapes, marked as what they replace. The result is `safe`.
Value EscapeHtml(Runtime& runtime, const MarkedText& text);

bool IsAlpha(char32_t code);
bool IsDigit(char32_t code);
bool IsUpper(char32_t code);
bool IsLower(char32_t code);

}  // namespace hadal::jinja
