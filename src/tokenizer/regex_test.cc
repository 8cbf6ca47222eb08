#include "tokenizer/regex.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace hadal {
namespace {

std::vector<std::string> Find(std::string_view pattern, std::string_view text) {
  const Regex regex = Regex::Compile(pattern);
  std::vector<Span> matches;
  Regex::Matcher(regex).FindAllInBytes(text, &matches);
  std::vector<std::string> out;
  for (const Span& match : matches) out.emplace_back(text.substr(match.begin, match.size()));
  return out;
}

using Matches = std::vector<std::string>;

TEST(Regex, ClassesAreUnicodes) {
  EXPECT_EQ(Find("\\s+", "a \t\u00a0\u3000\u0085\u2028b"), Matches{" \t\u00a0\u3000\u0085\u2028"});
  EXPECT_EQ(Find("\\s", "\u180e\u200b"), Matches{});  // not white space since Unicode 6.3
  EXPECT_EQ(Find("[^\\s]+", "a\u180eb \u3000c"), (Matches{"a\u180eb", "c"}));
  EXPECT_EQ(Find("[\\S]+", "a\u180eb \u3000c"), (Matches{"a\u180eb", "c"}));
  EXPECT_EQ(Find("\\w+", "né_1-\u0e01\u0e31x ①"), (Matches{"né_1", "\u0e01\u0e31x"}));
  EXPECT_EQ(Find("\\d+", "12٣٤a½"), Matches{"12٣٤"});
  EXPECT_EQ(Find("\\h+", "x0fFg"), Matches{"0fF"});
  EXPECT_EQ(Find("(?i:'s|'ll)", "it'S we'Ll"), (Matches{"'S", "'Ll"}));
  EXPECT_EQ(Find("\\bé\\w*", "été aé"), Matches{"été"});
  EXPECT_EQ(Find("[\\s-x]+", "a -x\ty"), Matches{" -x\t"});
}

TEST(Regex, RubysLinesAndDots) {
  EXPECT_EQ(Find("^a", "a\na"), (Matches{"a", "a"}));
  EXPECT_EQ(Find("\\s+$", "a \nb  "), (Matches{" ", "  "}));
  EXPECT_EQ(Find(".+", "a\rb\nc"), (Matches{"a\rb", "c"}));
  EXPECT_EQ(Find("(?m:.+)", "a\nc"), Matches{"a\nc"});
  EXPECT_EQ(Find("\\Aa", "a\na"), Matches{"a"});
  EXPECT_EQ(Find("[]a]+", "]a"), Matches{"]a"});
}

TEST(Regex, EmptyMatchesMoveOn) {
  EXPECT_EQ(Find("x*", "axxb"), (Matches{"", "xx", ""}));
  EXPECT_EQ(Find("(?=é)", "aéé"), (Matches{"", ""}));
}

TEST(Regex, IllFormedBytesMatchNothing) {
  EXPECT_EQ(Find("[^b]+",
                 "a\xFF\xC3"
                 "c"),
            (Matches{"a", "c"}));
}

TEST(Regex, WhatCannotBeSaidIsRefused) {
  for (const char* pattern :
       {"[a&&b]", "[a[bc]]", "a{1,2}+", "(?x)a", "(", "[[:alpha:]]", "\\p{Nope}", "a\\", "[a"}) {
    EXPECT_THROW(Regex::Compile(pattern), Error) << pattern;
  }
}

TEST(Regex, EscapesMeanThemselves) {
  const std::string text = "a.b*c[d]\\(e) {f}+?^$|-# &~";
  EXPECT_EQ(Find(EscapeRegex(text), "x" + text), Matches{text});
}

}  // namespace
}  // namespace hadal
