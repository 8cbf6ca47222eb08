#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/utf8.h"

namespace hadal {
namespace {

// Tokenizers' patterns need a few steps per character; this many mean that one runs away.
constexpr uint32_t kMatchLimit = 20'000'000;
constexpr size_t kMaxPatternBytes = 1 << 16;
constexpr size_t kJitStackStart = size_t{32} << 10;
constexpr size_t kJitStackMax = size_t{8} << 20;

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};

using CompileContext = std::unique_ptr<pcre2_compile_context, Deleter<pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Deleter<pcre2_jit_stack_free>>;

std::string Message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

template <typename Pointer>
Pointer NotNull(Pointer pointer) {
  if (pointer == nullptr) Fail(ErrorKind::kResource, "PCRE2 is out of memory");
  return pointer;
}

}  // namespace

struct Regex::Code {
  std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>> code;
  bool jit = false;
};

struct Regex::Matcher::State {
  const pcre2_code* code;
  bool jit;
  const std::string& source;
  MatchData data;
  MatchContext context;
  JitStack stack;

  int Match(std::string_view text, size_t from) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const auto match = jit ? pcre2_jit_match : pcre2_match;
    return match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, data.get(), context.get());
  }
};

Regex::Matcher::Matcher(const Regex& regex)
    : state_(new State{regex.code_->code.get(), regex.code_->jit, regex.source_,
                       MatchData(NotNull(
                           pcre2_match_data_create_from_pattern(regex.code_->code.get(), nullptr))),
                       MatchContext(NotNull(pcre2_match_context_create(nullptr))), nullptr}) {
  pcre2_set_match_limit(state_->context.get(), kMatchLimit);
  pcre2_set_heap_limit(state_->context.get(), 64 << 10);  // KiB; for the interpreter only
}

Regex::Matcher::~Matcher() = default;

// The first match at or behind `from`.
bool Regex::Matcher::Find(std::string_view text, size_t from, Span* match) {
  State& state = *state_;
  int rc = state.Match(text, from);
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT && state.stack == nullptr) {
    state.stack.reset(NotNull(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr)));
    pcre2_jit_stack_assign(state.context.get(), nullptr, state.stack.get());
    rc = state.Match(text, from);
  }
  if (rc == PCRE2_ERROR_NOMATCH) return false;
  if (rc < 0) {
    Fail(ErrorKind::kInvalid,
         "the tokenizer's pattern \"{}\" could not be applied to this text near byte {}: {}",
         state.source, from, Message(rc));
  }
  const PCRE2_SIZE* ovector = pcre2_get_ovector_pointer(state.data.get());
  // A lookahead or lookbehind with \K could.
  if (ovector[0] > ovector[1] || ovector[0] < from) {
    Fail(ErrorKind::kUnsupported, "the pattern \"{}\" moves its match backwards", state.source);
  }
  *match = {static_cast<uint32_t>(ovector[0]), static_cast<uint32_t>(ovector[1])};
  return true;
}

void Regex::Matcher::FindAll(std::string_view text, std::vector<Span>* matches) {
  if (text.empty()) return;
  size_t from = 0;
  size_t last_end = std::string_view::npos;
  Span match;
  while (from <= text.size() && Find(text, from, &match)) {
    if (match.size() == 0 && match.end == last_end) {
      if (from >= text.size()) break;
      from += DecodeUtf8(text, from).size;
      continue;
    }
    matches->push_back(match);
    from = last_end = match.end;
  }
}

Regex::Regex(std::string source, std::unique_ptr<Code> code)
    : source_(std::move(source)), code_(std::move(code)) {}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

Regex Regex::Compile(std::string_view oniguruma_pattern) {
  if (oniguruma_pattern.size() > kMaxPatternBytes) {
    Fail(ErrorKind::kUnsupported, "a regular expression of {} bytes; at most {} are supported",
         oniguruma_pattern.size(), kMaxPatternBytes);
  }
  const std::string pattern = TranslateRegex(oniguruma_pattern);
  const CompileContext context(NotNull(pcre2_compile_context_create(nullptr)));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 50);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // MULTILINE: in Ruby's syntax ^ and $ always stand at line ends.
  constexpr uint32_t kOptions =
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE;
  auto code = std::make_unique<Code>();
  code->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 kOptions, &error, &offset, context.get()));
  if (code->code == nullptr) {
    Fail(ErrorKind::kUnsupported, "the regular expression \"{}\" is not valid: {} (at byte {})",
         oniguruma_pattern, Message(error), offset);
  }
  code->jit = pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE) == 0;
  return Regex(std::string(oniguruma_pattern), std::move(code));
}

void Regex::Matcher::FindAllInBytes(std::string_view text, std::vector<Span>* matches) {
  for (size_t pos = 0; pos < text.size();) {
    const size_t length = std::min(FindInvalidUtf8(text.substr(pos)), text.size() - pos);
    const size_t first = matches->size();
    FindAll(text.substr(pos, length), matches);
    for (size_t i = first; i < matches->size(); ++i) {
      (*matches)[i].begin += static_cast<uint32_t>(pos);
      (*matches)[i].end += static_cast<uint32_t>(pos);
    }
    pos += length;
    while (pos < text.size()) {
      const Utf8Char c = DecodeUtf8(text, pos);
      if (c.valid) break;
      pos += c.size;
    }
  }
}

bool Regex::Matches(std::string_view text) const {
  Span match;
  return Matcher(*this).Find(text, 0, &match);
}

}  // namespace hadal
