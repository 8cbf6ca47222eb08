#include "http/target.h"

#include <gtest/gtest.h>

namespace hadal {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

TEST(ParseTarget, CollapsesSlashesAndDecodesSegments) {
  const auto target = ParseTarget("//v1///models/deepseek-ai%2FDeepSeek%20V3/");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, "/v1/models/deepseek-ai/DeepSeek V3");
  EXPECT_EQ(target->segments,
            (std::vector<std::string>{"v1", "models", "deepseek-ai/DeepSeek V3"}));
  EXPECT_EQ(ParseTarget("/")->path, "/");
  EXPECT_EQ(ParseTarget("/a+b")->path, "/a+b");
  EXPECT_EQ(ParseTarget("*")->path, "*");
  EXPECT_EQ(ParseTarget("/a/../b")->path, "/a/../b");  // no file system here to climb
}

TEST(ParseTarget, SplitsQueries) {
  EXPECT_EQ(ParseTarget("/a?x=1&y=a%26b+c&&flag&=v&x=2#part")->query,
            (Pairs{{"x", "1"}, {"y", "a&b c"}, {"flag", ""}, {"", "v"}, {"x", "2"}}));
  EXPECT_EQ(ParseTarget("/a?x=1=2?3")->query, (Pairs{{"x", "1=2?3"}}));
  EXPECT_TRUE(ParseTarget("/a?")->query.empty());
}

TEST(ParseTarget, TakesTheAbsoluteForm) {
  EXPECT_EQ(ParseTarget("http://host:80/a?b=c")->path, "/a");
  EXPECT_EQ(ParseTarget("https://host")->path, "/");
  EXPECT_EQ(ParseTarget("http://host?b=c")->query, (Pairs{{"b", "c"}}));
}

TEST(ParseTarget, RefusesWhatIsNotAPath) {
  for (const char* text : {"", "a", "host:80", "ftp://host/a", "/%", "/%4", "/%zz", "/a%00b",
                           "/a?x=%", "/a b", "/a\n", "/a?\x7f", "/a?%0=x", "?a"}) {
    EXPECT_FALSE(ParseTarget(text)) << text;
  }
}

}  // namespace
}  // namespace hadal
