#include "base/utf8.h"

#include <gtest/gtest.h>

namespace hadal {
namespace {

TEST(Utf8, RoundTripsEveryCodePoint) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(code, text);
    const Utf8Char decoded = DecodeUtf8(text, 0);
    ASSERT_TRUE(decoded.valid);
    ASSERT_EQ(decoded.code, code);
    ASSERT_EQ(decoded.size, text.size());
  }
}

// Expected replacements: Unicode 15, section 3.9, tables 3-8 to 3-11.
TEST(Utf8, ReplacesMaximalSubparts) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(ReplaceInvalidUtf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(ReplaceInvalidUtf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(ReplaceInvalidUtf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(ReplaceInvalidUtf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
  EXPECT_EQ(FindInvalidUtf8("ok\xC3"), 2u);
  EXPECT_EQ(FindInvalidUtf8("h\xC3\xA9"), std::string::npos);
}

TEST(Utf8, CompletePrefixHoldsBackOnlyWhatMayStillComplete) {
  EXPECT_EQ(CompleteUtf8Prefix("ab\xE2\x82"), 2u);
  EXPECT_EQ(CompleteUtf8Prefix("ab\xE2\x82\xAC"), 5u);
  EXPECT_EQ(CompleteUtf8Prefix("\xF0\x9F\x98"), 0u);
  EXPECT_EQ(CompleteUtf8Prefix("\xE0\x80"), 2u);  // ill-formed already
  EXPECT_EQ(CompleteUtf8Prefix("\x80\x80\x80\x80"), 4u);
  EXPECT_EQ(CompleteUtf8Prefix(""), 0u);
}

}  // namespace
}  // namespace hadal
