#include <string>
#include <string_view>

#include "base/error.h"
#include "tokenizer/regex.h"

namespace hadal {
namespace {

// White_Space of Unicode, which is Oniguruma's \s. PCRE2's own \s also holds U+180E.
constexpr std::string_view kSpace =
    "\\x09-\\x0D\\x20\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}"
    "\\x{3000}";
constexpr std::string_view kNotSpace =
    "\\x00-\\x08\\x0E-\\x1F\\x21-\\x{84}\\x{86}-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{1FFF}"
    "\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}"
    "\\x{3001}-\\x{D7FF}\\x{E000}-\\x{10FFFF}";
constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
constexpr std::string_view kHex = "0-9A-Fa-f";

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string Run() {
    while (pos_ < in_.size()) Step();
    if (set_depth_ != 0) Refuse("a set that is not closed");
    return std::move(out_);
  }

 private:
  [[noreturn]] void Refuse(std::string_view what) const {
    Fail(ErrorKind::kUnsupported, "the regular expression \"{}\" holds {}, which is not supported",
         in_, what);
  }

  bool At(std::string_view text) const { return in_.substr(pos_).starts_with(text); }

  void Take(size_t n) {
    out_.append(in_.substr(pos_, n));
    pos_ += n;
  }

  void Step() {
    if (in_[pos_] == '\\') {
      Escape();
    } else if (set_depth_ > 0) {
      SetChar();
    } else if (in_[pos_] == '[') {
      OpenSet();
    } else if (At("(?")) {
      Group();
    } else if (in_[pos_] == '}') {
      Take(1);
      // In Ruby's syntax "{n,m}+" repeats the repetition; in PCRE2 it is possessive.
      if (pos_ < in_.size() && in_[pos_] == '+') Refuse("a repeated interval {n,m}+");
    } else {
      Take(1);
    }
  }

  void OpenSet() {
    if (At("[[:")) Refuse("a POSIX class");
    set_depth_ = 1;
    Take(1);
    if (pos_ < in_.size() && in_[pos_] == '^') Take(1);
    // A ']' that comes first is a member.
    if (pos_ < in_.size() && in_[pos_] == ']') {
      out_.append("\\]");
      ++pos_;
    }
  }

  void SetChar() {
    if (At("&&")) Refuse("a set intersection (&&)");
    if (in_[pos_] == '[') Refuse("a set inside a set");
    if (in_[pos_] == ']') set_depth_ = 0;
    Take(1);
  }

  // "(?m" means to Ruby what "(?s" means to PCRE2, and Ruby has no other s.
  void Group() {
    Take(2);
    while (pos_ < in_.size() &&
           (in_[pos_] == 'i' || in_[pos_] == 'm' || in_[pos_] == 'x' || in_[pos_] == '-')) {
      if (in_[pos_] == 'x') Refuse("the option (?x)");
      out_.push_back(in_[pos_] == 'm' ? 's' : in_[pos_]);
      ++pos_;
    }
    if (pos_ < in_.size() &&
        std::string_view(":=!<>)#").find(in_[pos_]) == std::string_view::npos) {
      Refuse("an unknown kind of group");
    }
  }

  void Class(std::string_view members, std::string_view complement) {
    if (set_depth_ > 0) {
      out_.append(members);
      pos_ += 2;
      // "[\\s-x]": a '-' behind a class is a member, not a range from the class's last character.
      if (At("-") && !At("-]")) {
        out_.append("\\-");
        ++pos_;
      }
      return;
    }
    if (members.empty()) {
      out_.append("[^").append(complement).append("]");
    } else {
      out_.append("[").append(members).append("]");
    }
    pos_ += 2;
  }

  void Boundary(bool negated) {
    if (set_depth_ > 0) Refuse("\\b inside a set");
    const std::string word = "[" + std::string(kWord) + "]";
    const std::string inside = "(?<=" + word + ")(?" + (negated ? "=" : "!") + word + ")";
    const std::string outside = "(?<!" + word + ")(?" + (negated ? "!" : "=") + word + ")";
    out_.append("(?:" + inside + "|" + outside + ")");
    pos_ += 2;
  }

  void Escape() {
    if (pos_ + 1 >= in_.size()) Refuse("a backslash at its end");
    switch (in_[pos_ + 1]) {
      case 's':
        return Class(kSpace, {});
      case 'S':
        return set_depth_ > 0 ? Class(kNotSpace, {}) : Class({}, kSpace);
      case 'w':
        return Class(kWord, {});
      case 'W':
        if (set_depth_ > 0) Refuse("\\W inside a set");
        return Class({}, kWord);
      case 'h':
        return Class(kHex, {});
      case 'H':
        if (set_depth_ > 0) Refuse("\\H inside a set");
        return Class({}, kHex);
      case 'b':
        return Boundary(false);
      case 'B':
        return Boundary(true);
      case 'u':
        return CodePoint();
      case 'R':
      case 'X':
      case 'K':
      case 'O':
      case 'N':
      case 'y':
      case 'Y':
      case 'C':
      case 'M':
      case 'c':
      case 'g':
      case 'k':
      case 'Q':
      case 'E':
      case 'G':
        Refuse(std::string("\\") + in_[pos_ + 1]);
      case 'p':
      case 'P':
      case 'x':
        return Braced();
      default:
        return Take(2);
    }
  }

  // \p{...}, \x{...} or \xHH
  void Braced() {
    Take(2);
    if (!At("{")) return;
    const size_t end = in_.find('}', pos_);
    if (end == std::string_view::npos) Refuse("a { that is not closed");
    Take(end + 1 - pos_);
  }

  // \uHHHH
  void CodePoint() {
    const std::string_view digits = in_.substr(pos_ + 2, 4);
    if (digits.size() != 4 ||
        digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
      Refuse("a \\u without four hexadecimal digits");
    }
    out_.append("\\x{").append(digits).append("}");
    pos_ += 6;
  }

  std::string_view in_;
  std::string out_;
  size_t pos_ = 0;
  int set_depth_ = 0;
};

}  // namespace

std::string TranslateRegex(std::string_view pattern) {
  return Translator(pattern).Run();
}

std::string EscapeRegex(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}-#&~ ").find(c) != std::string_view::npos) {
      out.push_back('\\');
    }
    out.push_back(c);
  }
  return out;
}

}  // namespace hadal
