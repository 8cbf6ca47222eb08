#include "chat/text_ops.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"

namespace hadal::jinja {
namespace {

utf8proc_category_t Category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

bool IsIn(std::string_view chars, char32_t code) {
  for (size_t pos = 0; pos < chars.size();) {
    const Utf8Char c = DecodeUtf8(chars, pos);
    if (c.code == code) return true;
    pos += c.size;
  }
  return false;
}

// Start of the character that ends at `end`.
size_t CharacterBefore(std::string_view text, size_t end) {
  size_t pos = end - 1;
  while (pos > 0 && end - pos < 4 && (static_cast<uint8_t>(text[pos]) & 0xC0) == 0x80) --pos;
  return DecodeUtf8(text, pos).size == end - pos ? pos : end - 1;
}

std::vector<ByteRange> SplitAtSpace(std::string_view text, int64_t limit) {
  std::vector<ByteRange> pieces;
  size_t pos = 0;
  while (true) {
    pos = StripRange(text.substr(pos), nullptr, {true, false}).begin + pos;
    if (pos >= text.size()) return pieces;
    if (limit >= 0 && static_cast<int64_t>(pieces.size()) == limit) {
      pieces.push_back({pos, text.size()});
      return pieces;
    }
    size_t end = pos;
    while (end < text.size()) {
      const Utf8Char c = DecodeUtf8(text, end);
      if (IsSpace(c.code)) break;
      end += c.size;
    }
    pieces.push_back({pos, end});
    pos = end;
  }
}

std::vector<ByteRange> SplitAtSpaceFromRight(std::string_view text, int64_t limit) {
  std::vector<ByteRange> pieces;
  size_t end = text.size();
  while (true) {
    end = StripRange(text.substr(0, end), nullptr, {false, true}).end;
    if (end == 0) break;
    if (limit >= 0 && static_cast<int64_t>(pieces.size()) == limit) {
      pieces.push_back({0, end});
      break;
    }
    size_t begin = end;
    while (begin > 0) {
      const size_t before = CharacterBefore(text, begin);
      if (IsSpace(DecodeUtf8(text, before).code)) break;
      begin = before;
    }
    pieces.push_back({begin, end});
    end = begin;
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

char32_t ToUpper(char32_t code) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code)));
}
char32_t ToLower(char32_t code) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

void AppendCase(char32_t code, bool upper, bool title, std::string& out) {
  if (upper && code == 0xDF) {
    out += title ? "Ss" : "SS";
  } else if (upper && title) {
    AppendUtf8(static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code))), out);
  } else {
    AppendUtf8(upper ? ToUpper(code) : ToLower(code), out);
  }
}

// Characters after which the filter `title` starts a new word.
bool StartsTitleWord(char32_t code) {
  return IsSpace(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<';
}

}  // namespace

bool IsSpace(char32_t code) {
  if (code < 0x80) return (code >= 9 && code <= 13) || (code >= 0x1C && code <= 0x20);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool IsAlpha(char32_t code) {
  const utf8proc_category_t c = Category(code);
  return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT ||
         c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_LO;
}
bool IsDigit(char32_t code) {
  return Category(code) == UTF8PROC_CATEGORY_ND;
}
bool IsUpper(char32_t code) {
  return Category(code) == UTF8PROC_CATEGORY_LU || Category(code) == UTF8PROC_CATEGORY_LT;
}
bool IsLower(char32_t code) {
  return Category(code) == UTF8PROC_CATEGORY_LL;
}

ByteRange StripRange(std::string_view text, const std::string_view* chars, StripSides sides) {
  const auto strips = [&](char32_t code) {
    return chars != nullptr ? IsIn(*chars, code) : IsSpace(code);
  };
  size_t begin = 0;
  size_t end = text.size();
  while (sides.left && begin < end) {
    const Utf8Char c = DecodeUtf8(text, begin);
    if (!strips(c.code)) break;
    begin += c.size;
  }
  while (sides.right && end > begin) {
    const size_t before = CharacterBefore(text, end);
    if (!strips(DecodeUtf8(text, before).code)) break;
    end = before;
  }
  return {begin, std::max(begin, end)};
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<uint8_t>(c) < 128; });
}

size_t CountCodePoints(std::string_view text) {
  size_t n = 0;
  for (size_t pos = 0; pos < text.size(); pos += DecodeUtf8(text, pos).size) ++n;
  return n;
}

std::vector<size_t> CharacterOffsets(Runtime& runtime, std::string_view text) {
  runtime.Work(text.size() / 4 + 1);
  runtime.Memory((text.size() + 1) * sizeof(size_t));
  std::vector<size_t> offsets;
  offsets.reserve(text.size() + 1);
  for (size_t pos = 0; pos < text.size(); pos += DecodeUtf8(text, pos).size) offsets.push_back(pos);
  offsets.push_back(text.size());
  return offsets;
}

std::vector<ByteRange> SplitRanges(Runtime& runtime, std::string_view text,
                                   const std::string_view* separator, int64_t limit,
                                   bool from_right) {
  runtime.Work(text.size() / 8 + 1);
  runtime.Memory(text.size());  // a bound on the pieces; their texts are paid for when made
  if (separator == nullptr) {
    return from_right ? SplitAtSpaceFromRight(text, limit) : SplitAtSpace(text, limit);
  }
  std::vector<ByteRange> pieces;
  const auto may_split = [&] { return limit < 0 || static_cast<int64_t>(pieces.size()) < limit; };
  if (!from_right) {
    size_t pos = 0;
    for (size_t hit; may_split() && (hit = text.find(*separator, pos)) != text.npos;) {
      pieces.push_back({pos, hit});
      pos = hit + separator->size();
    }
    pieces.push_back({pos, text.size()});
    return pieces;
  }
  size_t end = text.size();
  while (may_split()) {
    const size_t hit = text.substr(0, end).rfind(*separator);
    if (hit == std::string_view::npos) break;
    pieces.push_back({hit + separator->size(), end});
    end = hit;
  }
  pieces.push_back({0, end});
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

std::vector<ByteRange> SplitLines(Runtime& runtime, std::string_view text, bool keep_ends) {
  runtime.Work(text.size() / 8 + 1);
  std::vector<ByteRange> lines;
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = DecodeUtf8(text, pos);
    const bool ends = (c.code >= 10 && c.code <= 13) || (c.code >= 0x1C && c.code <= 0x1E) ||
                      c.code == 0x85 || c.code == 0x2028 || c.code == 0x2029;
    const size_t end = pos;
    pos += c.size;
    if (!ends) continue;
    if (c.code == '\r' && pos < text.size() && text[pos] == '\n') ++pos;
    lines.push_back({begin, keep_ends ? pos : end});
    begin = pos;
  }
  if (begin < text.size()) lines.push_back({begin, text.size()});
  return lines;
}

Value ReplaceText(Runtime& runtime, const MarkedText& text, std::string_view from,
                  const MarkedText& to, int64_t limit) {
  TextBuilder out(runtime);
  size_t pos = 0;
  int64_t done = 0;
  if (from.empty()) {
    while (limit < 0 || done++ < limit) {
      out.Append(to);
      if (pos >= text.size()) break;
      const size_t size = DecodeUtf8(text.text, pos).size;
      out.Append(text, pos, pos + size);
      pos += size;
    }
  } else {
    for (size_t hit;
         (limit < 0 || done < limit) && (hit = text.text.find(from, pos)) != std::string::npos;
         ++done) {
      out.Append(text, pos, hit);
      out.Append(to);
      pos = hit + from.size();
    }
  }
  out.Append(text, pos, text.size());
  return out.Finish();
}

Value EscapeHtml(Runtime& runtime, const MarkedText& source) {
  TextBuilder out(runtime);
  size_t pos = 0;
  while (true) {
    const size_t hit = std::min(source.text.find_first_of("&<>'\"", pos), source.size());
    out.Append(source, pos, hit);
    if (hit == source.size()) break;
    const char c = source.text[hit];
    out.Append(c == '&'   ? "&amp;"
               : c == '<' ? "&lt;"
               : c == '>' ? "&gt;"
               : c == '"' ? "&#34;"
                          : "&#39;",
               source.IsData(hit));
    pos = hit + 1;
  }
  Value escaped = out.Finish();
  escaped.safe = true;
  return escaped;
}

Value ChangeCase(Runtime& runtime, const MarkedText& text, CaseOp op) {
  TextBuilder out(runtime);
  std::string piece;
  bool starts_word = true;
  bool is_data = false;
  const auto flush = [&] {
    out.Append(piece, is_data);
    piece.clear();
  };
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = DecodeUtf8(text.text, pos);
    const bool mark = text.HasData() && text.IsData(pos);
    if (mark != is_data || piece.size() > 4096) flush();
    is_data = mark;
    bool upper = op == CaseOp::kUpper || (op == CaseOp::kSwap && IsLower(c.code));
    const bool word_start = op >= CaseOp::kCapitalize && op != CaseOp::kSwap && starts_word;
    if (op == CaseOp::kTitleFilter) {
      starts_word = StartsTitleWord(c.code);
    } else {
      starts_word = op == CaseOp::kTitleMethod && !IsAlpha(c.code);
    }
    upper = upper || word_start;
    AppendCase(c.code, upper, word_start, piece);
    pos += c.size;
  }
  flush();
  return out.Finish();
}

}  // namespace hadal::jinja
