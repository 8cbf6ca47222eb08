// Cuts a template into text, tags and the tokens inside tags, with Jinja2's whitespace rules
// (trim_blocks, lstrip_blocks, `-` and `+` signs, one trailing newline dropped).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hadal::jinja {

enum class TokenKind : uint8_t {
  kText,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  // kText, kName, kOperator: as written; kString: decoded
  int64_t integer = 0;
  double real = 0;
};

// Ends with a kEnd token. Throws Error(kInvalid) naming the line.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace hadal::jinja
