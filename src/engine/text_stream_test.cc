#include "engine/text_stream.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

namespace hadal {
namespace {

// Feeds `text` in the given pieces; returns what comes out at once and in the end.
std::string Filter(const std::vector<std::string>& stops, const std::vector<std::string>& pieces,
                   std::optional<std::string>* stopped = nullptr) {
  StopFilter filter(stops);
  std::string out;
  for (const std::string& piece : pieces) out += filter.Push(piece);
  out += filter.Flush();
  if (stopped != nullptr) *stopped = filter.stopped();
  return out;
}

TEST(StopFilter, CutsAcrossPieces) {
  std::optional<std::string> stopped;
  EXPECT_EQ(Filter({"END"}, {"one E", "N", "D two"}, &stopped), "one ");
  EXPECT_EQ(stopped, "END");
  EXPECT_EQ(Filter({"END"}, {"one E", "N", "d two"}, &stopped), "one ENd two");
  EXPECT_EQ(stopped, std::nullopt);
  EXPECT_EQ(Filter({"END"}, {"EN"}), "EN");
  EXPECT_EQ(Filter({}, {"anything"}), "anything");
}

TEST(StopFilter, HoldsBackNothingElse) {
  StopFilter filter({"\n\nUser:"});
  EXPECT_EQ(filter.Push("hello\n"), "hello");
  EXPECT_EQ(filter.Push("x"), "\nx");
  EXPECT_EQ(filter.Push("\n\n\n"), "\n");
  EXPECT_EQ(filter.Push("Use"), "");
  EXPECT_EQ(filter.Push("d"), "\n\nUsed");
  EXPECT_EQ(filter.Push("aUser:"), "aUser:");
}

TEST(StopFilter, TheFirstCompleteStopWins) {
  std::optional<std::string> stopped;
  EXPECT_EQ(Filter({"abcdef", "cd"}, {"xabcdefg"}, &stopped), "xab");
  EXPECT_EQ(stopped, "cd");
  EXPECT_EQ(Filter({"c", "bc", "abc"}, {"xabc"}, &stopped), "x");
  EXPECT_EQ(stopped, "abc");
}

// The definition, over the whole text at once.
std::string Reference(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopFilter, PiecesDoNotMatter) {
  std::mt19937 random(5);
  const auto word = [&](size_t n) {
    std::string text;
    for (size_t i = 0; i < n; ++i) text += static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<std::string> stops;
    for (size_t i = 0; i < 1 + random() % 3; ++i) stops.push_back(word(3 + random() % 5));
    const std::string text = word(40);
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t n = 1 + random() % 6;
      pieces.push_back(text.substr(at, n));
      at += n;
    }
    ASSERT_EQ(Filter(stops, pieces), Reference(stops, text)) << text;
  }
}

TEST(StopFilter, RefusesWhatCannotBeAStop) {
  EXPECT_THROW(StopFilter({"ok", ""}), Error);
  EXPECT_THROW(StopFilter({"\xC3"}), Error);
}

}  // namespace
}  // namespace hadal
