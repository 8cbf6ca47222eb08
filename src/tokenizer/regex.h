// Regular expressions of tokenizers. They are written for Oniguruma (Ruby syntax, UTF-8) and run
// on PCRE2 with its JIT. Character properties are those of PCRE2's Unicode version (14 in 10.42):
// letters that were assigned later belong to no class.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/aligned_text.h"

namespace hadal {

// The PCRE2 pattern that means what `pattern` means to Oniguruma: \s, \S, \w, \W, \b, \h by
// Unicode as there, (?m) for "dot matches newline". Throws Error(kUnsupported) for what cannot be
// said in PCRE2 (set intersection, nested sets, {n,m}+ ...), naming it.
std::string TranslateRegex(std::string_view pattern);

// The pattern that matches `text` and nothing else.
std::string EscapeRegex(std::string_view text);

// A compiled pattern. Immutable; thread-safe (searching goes through a Matcher per thread).
class Regex {
 public:
  // Throws Error(kUnsupported) with the pattern and PCRE2's reason.
  static Regex Compile(std::string_view oniguruma_pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  const std::string& source() const { return source_; }

  bool Matches(std::string_view text) const;

  // Applies a pattern (which must outlive it) to many texts; for one thread.
  class Matcher {
   public:
    explicit Matcher(const Regex& regex);
    ~Matcher();
    Matcher(const Matcher&) = delete;
    Matcher& operator=(const Matcher&) = delete;

    // Appends all matches in `text`, which must be valid UTF-8 below 4 GiB, from left to right
    // without overlap; an empty match is not reported right behind another one. Throws
    // Error(kInvalid) when the pattern needs more steps on this text than we allow.
    void FindAll(std::string_view text, std::vector<Span>* matches);

    // The same for any bytes: each well-formed run is searched on its own.
    void FindAllInBytes(std::string_view text, std::vector<Span>* matches);

   private:
    friend class Regex;
    struct State;
    bool Find(std::string_view text, size_t from, Span* match);
    std::unique_ptr<State> state_;
  };

 private:
  struct Code;
  explicit Regex(std::string source, std::unique_ptr<Code> code);

  std::string source_;
  std::unique_ptr<Code> code_;
};

}  // namespace hadal
