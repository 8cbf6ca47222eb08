#include "tokenizer/byte_alphabet.h"

#include <array>

#include "base/utf8.h"

namespace hadal {
namespace {

// Bytes that are printable in Latin-1 stand for themselves; the other 68 take, in order, the
// characters from U+0100 on.
constexpr bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr int kFirstStandIn = 0x100;
constexpr int kCodes = 0x144;

struct Tables {
  std::array<std::array<char, 2>, 256> utf8{};
  std::array<uint8_t, 256> size{};
  std::array<int16_t, kCodes> to_byte{};
};

constexpr Tables MakeTables() {
  Tables tables;
  for (int code = 0; code < kCodes; ++code) tables.to_byte[code] = -1;
  int next = kFirstStandIn;
  for (int byte = 0; byte < 256; ++byte) {
    const int code = StandsForItself(byte) ? byte : next++;
    tables.to_byte[code] = static_cast<int16_t>(byte);
    if (code < 0x80) {
      tables.utf8[byte] = {static_cast<char>(code), 0};
      tables.size[byte] = 1;
    } else {
      tables.utf8[byte] = {static_cast<char>(0xC0 | code >> 6),
                           static_cast<char>(0x80 | (code & 0x3F))};
      tables.size[byte] = 2;
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

}  // namespace

std::string_view ByteToAlphabet(uint8_t byte) {
  return {kTables.utf8[byte].data(), kTables.size[byte]};
}

int AlphabetToByte(char32_t code) {
  return code < kCodes ? kTables.to_byte[code] : -1;
}

std::string EncodeAlphabet(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) out.append(ByteToAlphabet(static_cast<uint8_t>(c)));
  return out;
}

std::optional<std::string> DecodeAlphabet(std::string_view piece) {
  std::string out;
  out.reserve(piece.size());
  for (size_t pos = 0; pos < piece.size();) {
    const Utf8Char c = DecodeUtf8(piece, pos);
    const int byte = c.valid ? AlphabetToByte(c.code) : -1;
    if (byte < 0) return std::nullopt;
    out.push_back(static_cast<char>(byte));
    pos += c.size;
  }
  return out;
}

}  // namespace hadal
