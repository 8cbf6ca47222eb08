// The byte-level alphabet of GPT-2: one printable character for each of the 256 bytes, in which
// byte-level vocabularies are written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hadal {

// The character that stands for `byte`, in UTF-8.
std::string_view ByteToAlphabet(uint8_t byte);

// The byte that `code` stands for, or -1.
int AlphabetToByte(char32_t code);

// `bytes` written in the alphabet.
std::string EncodeAlphabet(std::string_view bytes);

// The bytes that `piece` stands for; none when a character is not of the alphabet.
std::optional<std::string> DecodeAlphabet(std::string_view piece);

}  // namespace hadal
