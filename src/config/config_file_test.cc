#include "config/config_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"

namespace hadal {
namespace {

class ConfigFileTest : public testing::Test {
 protected:
  OptionValues Read(const std::string& text, OptionValues values = OptionValues("serve")) {
    std::ofstream(path_) << text;
    ApplyConfigFile(path_, values);
    return values;
  }
  std::string ErrorOf(const std::string& text) {
    try {
      Read(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.message().substr(path_.string().size());
    }
    return "";
  }

  std::filesystem::path path_ = std::filesystem::path(testing::TempDir()) /
                                testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(ConfigFileTest, YamlAndJsonAreTheSame) {
  for (const char* text :
       {"port: 9000\nserved_model_name: [a, b]\nstrict-params: true\n# a comment\n",
        R"({"port": 9000, "served-model-name": ["a", "b"], "strict_params": true})"}) {
    const OptionValues values = Read(text);
    EXPECT_EQ(values.Integer("port"), 9000);
    EXPECT_EQ(values.List("served-model-name"), (std::vector<std::string>{"a", "b"}));
    EXPECT_TRUE(values.Flag("strict-params"));
  }
}

TEST_F(ConfigFileTest, TheCommandLineWins) {
  OptionValues given("serve");
  given.Set(*given.FindOption("port"), {"1"});
  EXPECT_EQ(Read("port: 9000", given).Integer("port"), 1);
}

TEST_F(ConfigFileTest, FalseFlagsAndEmptyFilesSetNothing) {
  EXPECT_FALSE(Read("strict-params: false").Flag("strict-params"));
  EXPECT_FALSE(Read("").Given("port"));
}

TEST_F(ConfigFileTest, ErrorsNameTheLine) {
  EXPECT_EQ(ErrorOf("host: x\nprot: 1\n"), ", line 2: there is no option 'prot'");
  EXPECT_EQ(ErrorOf("port: 99999999\n"), ", line 1: --port: 99999999 is outside 0 to 65535");
  EXPECT_EQ(ErrorOf("host: x\nport: [1, 2]\n"), ", line 2: port takes one value");
  EXPECT_EQ(ErrorOf("strict-params: maybe\n"), ", line 1: strict-params is true or false");
  EXPECT_EQ(ErrorOf("- a\n"), ", line 1: options are expected, one 'name: value' a line");
  EXPECT_EQ(ErrorOf("host: x\nport: {\n"), ", line 3: end of map flow not found");
  EXPECT_EQ(ErrorOf("prompt: x\n"), ", line 1: there is no option 'prompt'");
}

}  // namespace
}  // namespace hadal
