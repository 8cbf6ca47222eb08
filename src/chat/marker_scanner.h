// Finds markers in a text that comes byte by byte.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace hadal {

inline bool IsJsonSpace(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

// Text passes through; held back are only the newlines and the beginning of a marker at its end.
// Newlines in front of a marker belong to the marker. A value, for one thread.
class MarkerScanner {
 public:
  enum class Skip { kNothing, kNewlines, kSpace };

  // Every marker begins with '<', has no other '<' in it, and none begins another. They must
  // outlive the scanner.
  explicit MarkerScanner(std::span<const std::string_view> markers) : markers_(markers) {}

  // Drops newlines or white space up to the next other character.
  void SkipLeading(Skip skip) { skip_ = skip; }

  // Appends to `out` what is certain to be text now. Returns the marker that `c` completes.
  std::optional<size_t> Push(char c, std::string& out);
  // What is held back; for the end of the text.
  std::string TakeHeld();

  // Nothing is held back.
  bool idle() const { return newlines_ == 0 && partial_.empty(); }
  // How many newlines stood in front of the marker found last.
  size_t newlines_before_marker() const { return marker_newlines_; }

 private:
  void Release(std::string& out);

  std::span<const std::string_view> markers_;
  Skip skip_ = Skip::kNothing;
  size_t newlines_ = 0;
  size_t marker_newlines_ = 0;
  std::string partial_;
};

}  // namespace hadal
