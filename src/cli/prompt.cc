#include "cli/prompt.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/utf8.h"

namespace hadal::cli {
namespace {

constexpr size_t kMaxInput = size_t{1} << 30;

std::string ReadStandardInput() {
  std::string text;
  char buffer[65536];
  for (size_t n; (n = std::fread(buffer, 1, sizeof(buffer), stdin)) > 0;) {
    text.append(buffer, n);
    if (text.size() > kMaxInput) {
      Fail(ErrorKind::kInvalid, "standard input: more than {} bytes", kMaxInput);
    }
  }
  if (std::ferror(stdin) != 0) {
    Fail(ErrorKind::kIo, "standard input: cannot read: {}", std::strerror(errno));
  }
  return text;
}

}  // namespace

std::string ReadInput(const Arguments& arguments) {
  const OptionValues& options = arguments.options;
  const std::string& source = arguments.positional.back();
  const int given = options.Given("prompt") + options.Given("file") + !source.empty();
  if (given != 1) {
    Fail(ErrorKind::kUsage, "give the text with one of -p TEXT, -f FILE or - (standard input)");
  }
  if (!source.empty() && source != "-") {
    Fail(ErrorKind::kUsage, "'{}': give a text with -p, a file with -f", source);
  }
  if (options.Given("prompt")) return options.Text("prompt");
  return options.Given("file") ? ReadFileOrInput(options.Text("file")) : ReadStandardInput();
}

std::string ReadFileOrInput(const std::string& path) {
  return path == "-" ? ReadStandardInput() : ReadTextFile(path, kMaxInput);
}

std::string SystemMessage(const OptionValues& options) {
  std::string text = options.Text("system");
  RequireUtf8(text, "--system");
  return text;
}

std::time_t ReadNow(const OptionValues& options) {
  if (!options.Given("now")) return std::time(nullptr);
  const std::string text = options.Text("now");
  std::tm tm{};
  const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &tm);
  if (end == nullptr) end = strptime(text.c_str(), "%Y-%m-%d", &tm);
  if (end == nullptr || (*end != '\0' && std::string_view(end) != "Z")) {
    Fail(ErrorKind::kUsage, "--now: '{}' is not a time like 2025-01-15T12:00:00", text);
  }
  tm.tm_isdst = -1;
  return *end == 'Z' ? timegm(&tm) : mktime(&tm);
}

std::string TemplateSource(const Vocabulary& vocabulary, const OptionValues& options) {
  if (!options.Given("chat-template")) return vocabulary.chat_template;
  return ReadTextFile(options.Text("chat-template"), size_t{1} << 24);
}

ChatTemplate ParseTemplate(const std::string& source, const Vocabulary& vocabulary) {
  if (source.empty()) {
    Fail(ErrorKind::kInvalid,
         "{}: no chat template; give one with --chat-template FILE, or use `generate --raw`",
         vocabulary.source);
  }
  return ChatTemplate(source);
}

ChatTemplate ReadTemplate(const Vocabulary& vocabulary, const OptionValues& options) {
  return ParseTemplate(TemplateSource(vocabulary, options), vocabulary);
}

OrderedJson Message(std::string_view role, std::string_view content) {
  return {{"role", role}, {"content", content}};
}

void RequireUtf8(std::string_view text, std::string_view what) {
  const size_t bad = FindInvalidUtf8(text);
  if (bad != std::string_view::npos) {
    Fail(ErrorKind::kInvalid,
         "{} is not UTF-8 at byte {}; `generate --raw` takes bytes as they are", what, bad);
  }
}

}  // namespace hadal::cli
