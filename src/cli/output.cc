#include "cli/output.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/utf8.h"

namespace hadal::cli {
namespace {

bool ReaderIsGone() {
  pollfd state{STDOUT_FILENO, POLLOUT, 0};
  return poll(&state, 1, 0) == 1 && (state.revents & POLLERR) != 0;
}

}  // namespace

void OpenStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // The wrong direction, so that using the stream fails instead of succeeding into nothing.
    if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) _exit(1);
  }
}

int FinishOutput(std::string_view command, int code) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return code;
  const int reason = flushed ? 0 : errno;
  if (ReaderIsGone()) return code;
  fmt::print(stderr, "hadal{}{}: standard output: cannot write all of it{}{}\n",
             command.empty() ? "" : " ", command, reason == 0 ? "" : ": ",
             reason == 0 ? "" : std::strerror(reason));
  return 1;
}

void PrintBytes(std::string_view bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
}

std::string Printable(std::string_view text) {
  const std::string valid = ReplaceInvalidUtf8(text);
  std::string line;
  for (size_t pos = 0; pos < valid.size();) {
    const Utf8Char character = DecodeUtf8(valid, pos);
    const bool control = character.code < 0x20 || (character.code >= 0x7F && character.code < 0xA0);
    const bool separator = character.code == 0x2028 || character.code == 0x2029;
    AppendUtf8(control || separator ? U'?' : character.code, line);
    pos += character.size;
  }
  return line;
}

std::string Shortened(const std::string& line) {
  constexpr size_t kHead = 600, kTail = 300;
  if (line.size() <= kHead + kTail) return line;
  size_t tail = line.size() - kTail;
  while ((static_cast<unsigned char>(line[tail]) & 0xC0) == 0x80) ++tail;
  const std::string head = line.substr(0, kHead);
  return head.substr(0, CompleteUtf8Prefix(head)) + " [...] " + line.substr(tail);
}

ProgressLine::~ProgressLine() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::Show(std::string_view line) {
  const auto now = std::chrono::steady_clock::now();
  if (now - start_ < std::chrono::seconds(3) || now - last_ < std::chrono::milliseconds(200))
    return;
  if (isatty(STDERR_FILENO) != 1) return;
  last_ = now;
  shown_ = true;
  fmt::print(stderr, "\r\033[K{}", line);
  std::fflush(stderr);
}

}  // namespace hadal::cli
