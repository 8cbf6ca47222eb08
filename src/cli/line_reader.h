// One line at a time from a person (with editing and history) or from a pipe.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace hadal::cli {

class LineReader {
 public:
  // Lines and history are edited when standard input is a terminal.
  explicit LineReader(std::string prompt);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The next line without its end; empty at the end of input. Ctrl-C drops what was typed and asks
  // again.
  std::optional<std::string> Next();

 private:
  struct Editor;
  std::string prompt_;
  std::unique_ptr<Editor> editor_;
};

}  // namespace hadal::cli
