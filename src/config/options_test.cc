#include "config/options.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace hadal {
namespace {

const OptionSpec& Spec(std::string_view command, std::string_view key) {
  for (const OptionSpec& option : OptionTable()) {
    if (OptionKey(option) == key && TakesOption(option, command)) return option;
  }
  throw std::runtime_error("no such option");
}

TEST(OptionTable, NamesAreUniqueWithinACommandAndEveryEntryIsExplained) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const OptionSpec& option : OptionTable()) {
    EXPECT_FALSE(option.help.empty()) << option.names;
    EXPECT_FALSE(option.commands.empty()) << option.names;
    for (const char* command :
         {"generate", "chat", "logits", "eval", "bench", "inspect", "tokenize", "quantize"}) {
      if (!TakesOption(option, command)) continue;
      EXPECT_TRUE(seen.emplace(command, OptionKey(option)).second) << option.names;
    }
  }
}

TEST(OptionTable, EveryFallbackIsAllowed) {
  for (const OptionSpec& option : OptionTable()) {
    if (option.fallback.empty()) continue;
    OptionValues values("any");
    EXPECT_NO_THROW(values.Set(option, {std::string(option.fallback)})) << option.names;
  }
}

TEST(OptionValues, ChecksTypeRangeAndChoices) {
  OptionValues values("generate");
  EXPECT_THROW(values.Set(Spec("generate", "top-p"), {"1.5"}), Error);
  EXPECT_THROW(values.Set(Spec("generate", "top-p"), {"nan"}), Error);
  EXPECT_THROW(values.Set(Spec("generate", "threads"), {"0"}), Error);
  EXPECT_THROW(values.Set(Spec("generate", "threads"), {"two"}), Error);
  EXPECT_THROW(values.Set(Spec("generate", "dtype"), {"f64"}), Error);
  EXPECT_EQ(values.Text("dtype"), "auto");
  values.Set(Spec("generate", "dtype"), {"f32"});
  EXPECT_EQ(values.Text("dtype"), "f32");
  values.Set(Spec("generate", "ctx"), {"4k"});
  EXPECT_EQ(values.Integer("ctx"), 4096);
}

TEST(ParseInteger, RefusesWhatDoesNotFit) {
  EXPECT_EQ(ParseInteger("2m", "x"), 2 << 20);
  EXPECT_THROW(ParseInteger("99999999999999999999", "x"), Error);
  EXPECT_THROW(ParseInteger("9999999999999999m", "x"), Error);
  EXPECT_THROW(ParseInteger("1.5", "x"), Error);
  EXPECT_THROW(ParseInteger("", "x"), Error);
  EXPECT_EQ(ParseUnsigned("18446744073709551615", "x"), UINT64_MAX);
  EXPECT_THROW(ParseUnsigned("18446744073709551616", "x"), Error);
  EXPECT_THROW(ParseUnsigned("-1", "x"), Error);
  EXPECT_THROW(ParseUnsigned("1k", "x"), Error);
  EXPECT_EQ(ParseIntegers("[1, 2 3]", "x"), (std::vector<int64_t>{1, 2, 3}));
}

}  // namespace
}  // namespace hadal
