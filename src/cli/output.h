// Standard output as scripts rely on it: what could not be written is a failure, not silence.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace hadal::cli {

// Occupies descriptors 0 to 2 where the caller closed them, so that no file opened later takes
// their place and receives what is meant for a reader.
void OpenStandardStreams();

// Flushes standard output. Returns `code`, or says on stderr that the output is incomplete and
// returns 1. A reader that went away (`| head`) is none of our failures: `code` stays.
int FinishOutput(std::string_view command, int code);

// Writes bytes to standard output as they are.
void PrintBytes(std::string_view bytes);

// Names and texts out of files, fit for a line on a terminal: they must not drive it or forge
// lines. Control characters become '?', bytes that are not UTF-8 U+FFFD.
std::string Printable(std::string_view text);

// Printable text without the middle of what no one would read: kilobytes of a hostile name.
std::string Shortened(const std::string& line);

// A line on stderr that overwrites itself while something takes long, and is gone when its owner
// is. Silent unless a person watches, before the third second, and more often than five times a
// second.
class ProgressLine {
 public:
  ~ProgressLine();
  void Show(std::string_view line);

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_ = start_;
  bool shown_ = false;
};

}  // namespace hadal::cli
