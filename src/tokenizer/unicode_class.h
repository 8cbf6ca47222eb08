// Character classes that Hugging Face's tokenizers take from Rust, and normal forms.
#pragma once

#include <string>
#include <string_view>

namespace hadal {

bool IsWhiteSpace(char32_t code);   // White_Space
bool IsNumeric(char32_t code);      // Nd, Nl, No
bool IsPunctuation(char32_t code);  // ASCII punctuation and symbols, and P*
bool IsMark(char32_t code);         // Mn, Mc, Me

// Lower case by the simple mapping and, for U+0130, the full one (no final sigma).
void AppendLowercase(char32_t code, std::string& out);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// The end of the shortest piece of `text` from `pos` on that is normalised independently of what
// follows. pos < text.size(); text is valid UTF-8. A piece that is certainly in normal form already
// sets *unchanged.
size_t NormalizationChunk(std::string_view text, size_t pos, NormalForm form, bool* unchanged);

// `chunk`, as NormalizationChunk() cuts it, in normal form. n log n in its length.
std::string NormalizeChunk(std::string_view chunk, NormalForm form);

}  // namespace hadal
