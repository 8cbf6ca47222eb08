#include "tokenizer/normalizer.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace hadal {
namespace {

std::string Normal(NormalForm form, std::string_view text) {
  Normalizer normalizer;
  normalizer.Add(form);
  return std::string(normalizer.Run(AlignedText(text, 0)).text());
}

// Values from Unicode's NormalizationTest.txt and the Hangul examples of the standard, 3.12.
TEST(Normalizer, NormalForms) {
  EXPECT_EQ(Normal(NormalForm::kNfc, "e\u0301"), "\u00e9");
  EXPECT_EQ(Normal(NormalForm::kNfd, "a\u1e69z"), "as\u0323\u0307z");
  EXPECT_EQ(Normal(NormalForm::kNfc, "s\u0307\u0323"), "\u1e69");
  EXPECT_EQ(Normal(NormalForm::kNfc, "\u1112\u1161\u11ab\u1100\u1173\u11af"), "한글");
  EXPECT_EQ(Normal(NormalForm::kNfd, "한"), "\u1112\u1161\u11ab");
  EXPECT_EQ(Normal(NormalForm::kNfc, "\u0958"), "\u0915\u093c");  // composition exclusion
  EXPECT_EQ(Normal(NormalForm::kNfc, "\u2126\u212b"), "\u03a9\u00c5");
  EXPECT_EQ(Normal(NormalForm::kNfkc, "\uff76\uff9e\u3131\u314f"), "\u30ac\uac00");
  EXPECT_EQ(Normal(NormalForm::kNfkc, "ﬁ①½"), "fi11\u20442");
  EXPECT_EQ(Normal(NormalForm::kNfkd, "\u00a0\u1e9b\u0323"), " s\u0323\u0307");
  EXPECT_EQ(Normal(NormalForm::kNfc, "\u09c7\u09be"), "\u09cb");  // two vowel signs of class 0
  EXPECT_EQ(Normal(NormalForm::kNfc, "plain 文字\xFF"), "plain 文字\xFF");
}

TEST(Normalizer, KnowsWhereTextCameFrom) {
  Normalizer normalizer;
  normalizer.Add(PrependStep{"\u2581"});
  normalizer.Add(NormalForm::kNfc);
  normalizer.Add(ReplaceStep{Regex::Compile(" "), " ", "\u2581"});
  const std::string input = "..xe\u0301 y";
  const AlignedText text = normalizer.Run(AlignedText(std::string_view(input).substr(2), 2));
  ASSERT_EQ(text.text(), "\u2581x\u00e9\u2581y");
  EXPECT_EQ(text.Origin(0, 3), (ByteRange{2, 2}));   // the prefix came from nowhere
  EXPECT_EQ(text.Origin(3, 4), (ByteRange{2, 3}));   // x
  EXPECT_EQ(text.Origin(4, 6), (ByteRange{3, 6}));   // e and its accent
  EXPECT_EQ(text.Origin(4, 5), (ByteRange{3, 6}));   // half of it
  EXPECT_EQ(text.Origin(6, 10), (ByteRange{6, 8}));  // space and y
  EXPECT_EQ(text.Slice(6, 10).Origin(3, 4), (ByteRange{7, 8}));
}

TEST(Normalizer, ManyMarksAreOrderedInTime) {
  std::string marks = "e";
  for (int i = 0; i < 100'000; ++i) marks += i % 2 == 0 ? "\u0301" : "\u0327";
  const std::string normal = Normal(NormalForm::kNfd, marks);
  EXPECT_EQ(normal.size(), marks.size());
  EXPECT_EQ(normal.substr(0, 5), "e\u0327\u0327");
  EXPECT_EQ(normal.substr(normal.size() - 4), "\u0301\u0301");
}

}  // namespace
}  // namespace hadal
