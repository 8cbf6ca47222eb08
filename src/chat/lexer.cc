#include "chat/lexer.h"

#include <array>
#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "base/utf8.h"
#include "chat/text_ops.h"

namespace hadal::jinja {
namespace {

// Every line end becomes '\n', and one at the very end is dropped.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
    } else {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool IsAsciiDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsNameChar(char c) {
  return IsNameStart(c) || IsAsciiDigit(c);
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(NormalizeNewlines(source)) {}

  std::vector<Token> Run() {
    while (pos_ < text_.size()) NextSegment();
    Push(TokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void FailAt(int line, std::string_view what) const {
    Fail(ErrorKind::kInvalid, "chat template, line {}: {}", line, what);
  }

  Token& Push(TokenKind kind) {
    Token& token = tokens_.emplace_back();
    token.kind = kind;
    token.line = line_;
    return token;
  }

  void Advance(size_t end) {
    for (; pos_ < end; ++pos_) line_ += text_[pos_] == '\n';
  }

  bool At(std::string_view s, size_t pos) const { return text_.compare(pos, s.size(), s) == 0; }

  size_t SkipSpace(size_t pos) const {
    while (pos < text_.size()) {
      const Utf8Char c = DecodeUtf8(text_, pos);
      if (!IsSpace(c.code)) break;
      pos += c.size;
    }
    return pos;
  }

  // Position of the next `{{`, `{%` or `{#`, or the end.
  size_t FindTag() const {
    for (size_t p = pos_; (p = text_.find('{', p)) != std::string::npos; ++p) {
      if (p + 1 < text_.size() &&
          (text_[p + 1] == '{' || text_[p + 1] == '%' || text_[p + 1] == '#')) {
        return p;
      }
    }
    return text_.size();
  }

  // The text before a tag at `tag`, with the whitespace removed that the tag asks for.
  void EmitText(size_t tag, char sign, bool strips_line) {
    std::string_view text = std::string_view(text_).substr(pos_, tag - pos_);
    if (sign == '-') {
      text = text.substr(0, StripRange(text, nullptr, {false, true}).end);
    } else if (sign != '+' && strips_line) {
      const size_t newline = text.rfind('\n');
      const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
      if ((start > 0 || line_starting_) && SkipSpace(pos_ + start) >= tag) {
        text = text.substr(0, start);
      }
    }
    if (!text.empty()) Push(TokenKind::kText).text = text;
    Advance(tag);
  }

  char SignAt(size_t pos) const {
    return pos < text_.size() && (text_[pos] == '-' || text_[pos] == '+') ? text_[pos] : '\0';
  }

  void NextSegment() {
    const size_t tag = FindTag();
    if (tag == text_.size()) {
      EmitText(tag, '\0', false);
      return;
    }
    const char kind = text_[tag + 1];
    const char sign = SignAt(tag + 2);
    EmitText(tag, sign, kind != '{');
    const size_t body = tag + 2 + (sign != '\0' ? 1 : 0);
    if (kind == '#') {
      SkipComment(body);
    } else if (kind == '%' && SkipRaw(body)) {
      return;
    } else {
      Push(kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin);
      Advance(body);
      Tag(kind == '{');
    }
  }

  // Moves past a closing mark that ends at `end`, and past the whitespace its sign removes.
  void Close(size_t end, char sign, bool trims_newline) {
    if (sign == '-') {
      end = SkipSpace(end);
    } else if (sign != '+' && trims_newline && end < text_.size() && text_[end] == '\n') {
      ++end;
    }
    Advance(end);
    line_starting_ = end > 0 && text_[end - 1] == '\n';
  }

  void SkipComment(size_t body) {
    // `{#-#}` needs its sign for the end as well.
    size_t end = text_.find("#}", body);
    if (end == std::string::npos) FailAt(line_, "a comment is never closed");
    const char sign = end > body ? SignAt(end - 1) : '\0';
    Close(end + 2, sign, true);
  }

  // Handles `{% raw %}...{% endraw %}`; false when the tag at hand is another one.
  bool SkipRaw(size_t body) {
    size_t p = SkipSpace(body);
    if (!At("raw", p)) return false;
    p = SkipSpace(p + 3);
    const bool minus = At("-%}", p);
    if (!minus && !At("%}", p)) return false;
    const int line = line_;
    Close(p + (minus ? 3 : 2), minus ? '-' : '+', false);
    for (size_t tag = pos_; (tag = text_.find("{%", tag)) != std::string::npos; tag += 2) {
      const char sign = SignAt(tag + 2);
      size_t q = SkipSpace(tag + 2 + (sign != '\0' ? 1 : 0));
      if (!At("endraw", q)) continue;
      q = SkipSpace(q + 6);
      const char end_sign = SignAt(q);
      if (end_sign != '\0') ++q;
      if (!At("%}", q)) continue;
      EmitText(tag, sign, true);
      Close(q + 2, end_sign, true);
      return true;
    }
    FailAt(line, "`raw` is never closed");
  }

  // The tokens of one `{{ }}` or `{% %}`, up to and with its end.
  void Tag(bool variable) {
    const std::string_view end = variable ? "}}" : "%}";
    const int line = line_;
    std::string open;  // brackets, innermost last
    while (true) {
      Advance(SkipSpace(pos_));
      if (pos_ >= text_.size()) FailAt(line, fmt::format("`{}` is missing", end));
      if (open.empty()) {
        const char sign = SignAt(pos_);
        const bool signed_end = (sign == '-' || (sign == '+' && !variable)) && At(end, pos_ + 1);
        if (signed_end || At(end, pos_)) {
          Push(variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd);
          Close(pos_ + 2 + (signed_end ? 1 : 0), signed_end ? sign : '\0', !variable);
          return;
        }
      }
      TagToken(open);
    }
  }

  void TagToken(std::string& open) {
    const char c = text_[pos_];
    if (IsNameStart(c)) {
      size_t end = pos_;
      while (end < text_.size() && IsNameChar(text_[end])) ++end;
      Push(TokenKind::kName).text = text_.substr(pos_, end - pos_);
      Advance(end);
    } else if (IsAsciiDigit(c)) {
      Number();
    } else if (c == '"' || c == '\'') {
      StringLiteral(c);
    } else {
      Operator(open);
    }
  }

  void Operator(std::string& open) {
    static constexpr std::array<std::string_view, 6> kPairs = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kSingles = "+-/*%~[](){}><=.:|,;";
    for (const std::string_view pair : kPairs) {
      if (At(pair, pos_)) {
        Push(TokenKind::kOperator).text = pair;
        Advance(pos_ + 2);
        return;
      }
    }
    const char c = text_[pos_];
    if (kSingles.find(c) == std::string_view::npos) {
      const Utf8Char bad = DecodeUtf8(text_, pos_);
      FailAt(line_, fmt::format("unexpected character '{}'", text_.substr(pos_, bad.size)));
    }
    if (c == '(' || c == '[' || c == '{') {
      open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) FailAt(line_, fmt::format("unexpected '{}'", c));
      open.pop_back();
    }
    Push(TokenKind::kOperator).text = std::string(1, c);
    Advance(pos_ + 1);
  }

  void Number() {
    std::string digits;
    size_t end = pos_;
    const auto take_digits = [&] {
      while (end < text_.size() && (IsAsciiDigit(text_[end]) || text_[end] == '_')) {
        if (text_[end] != '_') digits.push_back(text_[end]);
        ++end;
      }
    };
    take_digits();
    bool is_float = false;
    if (end + 1 < text_.size() && text_[end] == '.' && IsAsciiDigit(text_[end + 1])) {
      is_float = true;
      digits.push_back('.');
      ++end;
      take_digits();
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < text_.size() && (text_[exponent] == '-' || text_[exponent] == '+')) ++exponent;
      if (exponent < text_.size() && IsAsciiDigit(text_[exponent])) {
        is_float = true;
        digits.append(text_, end, exponent - end);
        end = exponent;
        take_digits();
      }
    }
    Token& token = Push(is_float ? TokenKind::kFloat : TokenKind::kInteger);
    if (is_float) {
      token.real = std::strtod(digits.c_str(), nullptr);
    } else {
      const auto [rest, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), token.integer);
      if (error != std::errc()) FailAt(line_, "an integer is too large");
    }
    Advance(end);
  }

  void StringLiteral(char quote) {
    const int line = line_;
    std::string value;
    size_t p = pos_ + 1;
    while (true) {
      if (p >= text_.size()) FailAt(line, "a string is never closed");
      if (text_[p] == quote) break;
      if (text_[p] == '\\') {
        p = Escape(p + 1, value);
      } else {
        value.push_back(text_[p++]);
      }
    }
    Push(TokenKind::kString).text = std::move(value);
    Advance(p + 1);
  }

  // Decodes the escape whose letter stands at `p`; returns the position behind it.
  size_t Escape(size_t p, std::string& out) {
    if (p >= text_.size()) FailAt(line_, "a string is never closed");
    static constexpr std::string_view kLetters = "abfnrtv\\'\"";
    static constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"";
    const char c = text_[p];
    if (const size_t i = kLetters.find(c); i != std::string_view::npos) {
      out.push_back(kValues[i]);
      return p + 1;
    }
    if (c == '\n') return p + 1;
    if (c == 'x') return HexEscape(p + 1, 2, out);
    if (c == 'u') return HexEscape(p + 1, 4, out);
    if (c == 'U') return HexEscape(p + 1, 8, out);
    if (c >= '0' && c <= '7') {
      char32_t code = 0;
      size_t end = p;
      for (; end < p + 3 && end < text_.size() && text_[end] >= '0' && text_[end] <= '7'; ++end) {
        code = code * 8 + static_cast<char32_t>(text_[end] - '0');
      }
      AppendUtf8(code, out);
      return end;
    }
    out.push_back('\\');
    return p;
  }

  size_t HexEscape(size_t p, size_t digits, std::string& out) {
    char32_t code = ReadHex(p, digits);
    p += digits;
    // A surrogate pair, as JSON writes it, is one character.
    if (code >= 0xD800 && code < 0xDC00 && At("\\u", p)) {
      const char32_t low = ReadHex(p + 2, 4);
      if (low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        p += 6;
      }
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      FailAt(line_, "an escape in a string names no Unicode character");
    }
    AppendUtf8(code, out);
    return p;
  }

  char32_t ReadHex(size_t p, size_t digits) const {
    if (p + digits > text_.size()) FailAt(line_, "a string ends inside an escape");
    uint32_t code = 0;
    const char* end = text_.data() + p + digits;
    const auto [rest, error] = std::from_chars(text_.data() + p, end, code, 16);
    if (error != std::errc() || rest != end) FailAt(line_, "a broken escape in a string");
    return code;
  }

  std::string text_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source) {
  return Lexer(source).Run();
}

}  // namespace hadal::jinja
