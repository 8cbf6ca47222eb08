#include "cli/line_reader.h"

#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cwchar>
#include <iostream>
#include <string_view>

#include "cli/session.h"

namespace hadal::cli {
namespace {

// libedit drops what it takes for no character: in the C locale, all but ASCII.
void UseUtf8Terminal() {
  if (std::setlocale(LC_CTYPE, "") == nullptr ||
      std::string_view(nl_langinfo(CODESET)) != "UTF-8") {
    std::setlocale(LC_CTYPE, "C.UTF-8");
  }
}

// One byte from the terminal: 1, 0 at the end, -1 on Ctrl-C. A Ctrl-C that comes just before a
// blocking read would go unseen until the next key; hence the looking up between short waits.
int ReadByte(char& byte) {
  constexpr int kWaitMilliseconds = 100;
  for (;;) {
    if (InterruptScope::interrupted()) return -1;
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const int ready = poll(&input, 1, kWaitMilliseconds);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t n = read(STDIN_FILENO, &byte, 1);
    if (n < 0 && errno == EINTR) continue;
    return n == 1 ? 1 : 0;
  }
}

// libedit's way to ask for a character. Bytes that form none are skipped.
int ReadCharacter(EditLine*, wchar_t* character) {
  std::mbstate_t state{};
  for (;;) {
    char byte = 0;
    const int got = ReadByte(byte);
    if (got != 1) return got;
    const size_t size = std::mbrtowc(character, &byte, 1, &state);
    if (size <= 1) return 1;
    if (size == static_cast<size_t>(-1)) state = {};
  }
}

}  // namespace

struct LineReader::Editor {
  explicit Editor(const std::string& text) : prompt(text) {
    UseUtf8Terminal();
    line = el_init("hadal", stdin, stdout, stderr);
    past = history_init();
    HistEvent event;
    history(past, &event, H_SETSIZE, 1000);
    el_set(line, EL_CLIENTDATA, this);
    el_set(line, EL_PROMPT, &Editor::Prompt);
    el_set(line, EL_EDITOR, "emacs");
    el_set(line, EL_GETCFN, &ReadCharacter);
    el_set(line, EL_HIST, history, past);
    el_source(line, nullptr);
  }
  ~Editor() {
    history_end(past);
    el_end(line);
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  static char* Prompt(EditLine* editor) {
    void* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return static_cast<Editor*>(self)->prompt.data();
  }

  std::string prompt;
  EditLine* line = nullptr;
  History* past = nullptr;
};

LineReader::LineReader(std::string prompt) : prompt_(std::move(prompt)) {
  if (isatty(STDIN_FILENO) == 1) editor_ = std::make_unique<Editor>(prompt_);
}

LineReader::~LineReader() = default;

std::optional<std::string> LineReader::Next() {
  if (!editor_) {
    std::string text;
    if (!std::getline(std::cin, text)) return std::nullopt;
    return text;
  }
  const InterruptScope interrupt;
  for (;;) {
    int size = 0;
    const char* typed = el_gets(editor_->line, &size);
    if (typed == nullptr && InterruptScope::interrupted()) {
      InterruptScope::Clear();
      el_reset(editor_->line);
      std::fputs("\n", stdout);
      continue;
    }
    if (typed == nullptr || size <= 0) return std::nullopt;
    std::string text(typed, static_cast<size_t>(size));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    if (!text.empty()) {
      HistEvent event;
      history(editor_->past, &event, H_ENTER, text.c_str());
    }
    return text;
  }
}

}  // namespace hadal::cli
