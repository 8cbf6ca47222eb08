#include "tokenizer/unicode_class.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"

namespace hadal {
namespace {

bool IsCompatibility(NormalForm form) {
  return form == NormalForm::kNfkc || form == NormalForm::kNfkd;
}
bool IsComposed(NormalForm form) {
  return form == NormalForm::kNfc || form == NormalForm::kNfkc;
}

utf8proc_option_t DecomposeOptions(NormalForm form) {
  int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
  if (IsCompatibility(form)) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

// Appends the full decomposition of `code`, unordered.
void Decompose(char32_t code, NormalForm form, std::vector<utf8proc_int32_t>& out) {
  utf8proc_int32_t buffer[32];  // the longest decomposition of Unicode has 18
  int last_boundclass = 0;
  const utf8proc_ssize_t n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), buffer,
                                                     32, DecomposeOptions(form), &last_boundclass);
  HADAL_CHECK(n >= 0 && n <= 32);
  out.insert(out.end(), buffer, buffer + n);
}

int CombiningClass(utf8proc_int32_t code) {
  return utf8proc_get_property(code)->combining_class;
}

// Vowel and final letters of conjoining Hangul, and Kirat Rai vowel signs: letters that compose
// with what stands before them.
bool IsComposingLetter(char32_t code) {
  return (code >= 0x1160 && code <= 0x11FF) || (code >= 0xD7B0 && code <= 0xD7FF) ||
         (code >= 0x16D60 && code <= 0x16D7F);
}

// True when nothing before `code` can change or move it, so that a text may be cut before it.
bool StartsChunk(char32_t code, NormalForm form) {
  if (code < 0x300) return true;
  // Han, the bulk of non-Latin text, and Hangul syllables.
  if ((code >= 0x4E00 && code <= 0x9FFF) || (code >= 0xAC00 && code <= 0xD7A3)) return true;
  utf8proc_int32_t buffer[32];
  int last_boundclass = 0;
  const utf8proc_ssize_t n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), buffer,
                                                     32, DecomposeOptions(form), &last_boundclass);
  if (n <= 0) return false;
  const auto first = static_cast<char32_t>(buffer[0]);
  return CombiningClass(buffer[0]) == 0 && !IsMark(first) && !IsComposingLetter(first);
}

}  // namespace

bool IsWhiteSpace(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

bool IsNumeric(char32_t code) {
  if (code < 0x80) return code >= '0' && code <= '9';
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return true;
    default:
      return false;
  }
}

bool IsPunctuation(char32_t code) {
  if (code < 0x80) {
    return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') ||
           (code >= '[' && code <= '`') || (code >= '{' && code <= '~');
  }
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool IsMark(char32_t code) {
  if (code < 0x300) return false;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

void AppendLowercase(char32_t code, std::string& out) {
  if (code == 0x130) {
    out.append("i\xCC\x87");
    return;
  }
  AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))), out);
}

size_t NormalizationChunk(std::string_view text, size_t pos, NormalForm form, bool* unchanged) {
  // ASCII is in every normal form; only its last character can meet a mark.
  size_t end = pos;
  while (end < text.size() && static_cast<uint8_t>(text[end]) < 0x80) ++end;
  if (end == text.size() || end > pos + 1) {
    *unchanged = true;
    return end == text.size() ? end : end - 1;
  }
  const Utf8Char first = DecodeUtf8(text, pos);
  end = pos + first.size;
  bool single = true;
  while (end < text.size()) {
    const Utf8Char next = DecodeUtf8(text, end);
    if (StartsChunk(next.code, form)) break;
    end += next.size;
    single = false;
  }
  const bool whole =
      first.code < 0x80 ||
      utf8proc_get_property(static_cast<utf8proc_int32_t>(first.code))->decomp_seqindex ==
          UINT16_MAX;
  const bool hangul = first.code >= 0xAC00 && first.code <= 0xD7A3;
  *unchanged = single && whole && (IsComposed(form) || !hangul);
  return end;
}

std::string NormalizeChunk(std::string_view chunk, NormalForm form) {
  std::vector<utf8proc_int32_t> codes;
  for (size_t pos = 0; pos < chunk.size();) {
    const Utf8Char c = DecodeUtf8(chunk, pos);
    Decompose(c.code, form, codes);
    pos += c.size;
  }
  // Canonical order: each run of marks by class. (utf8proc would bubble-sort a hostile run.)
  for (size_t i = 0; i < codes.size();) {
    if (CombiningClass(codes[i]) == 0) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    while (end < codes.size() && CombiningClass(codes[end]) != 0) ++end;
    std::stable_sort(codes.begin() + static_cast<std::ptrdiff_t>(i),
                     codes.begin() + static_cast<std::ptrdiff_t>(end),
                     [](utf8proc_int32_t a, utf8proc_int32_t b) {
                       return CombiningClass(a) < CombiningClass(b);
                     });
    i = end;
  }
  if (IsComposed(form)) {
    const utf8proc_ssize_t n = utf8proc_normalize_utf32(
        codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    HADAL_CHECK(n >= 0);
    codes.resize(static_cast<size_t>(n));
  }
  std::string out;
  for (const utf8proc_int32_t code : codes) AppendUtf8(static_cast<char32_t>(code), out);
  return out;
}

}  // namespace hadal
