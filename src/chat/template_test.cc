// Renders the conversations of tests/data/chat, and of the full fixtures where they are installed,
// and compares with what jinja2 made of them.
#include "chat/template.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"

namespace hadal {
namespace {

namespace fs = std::filesystem;

// 15 January 2025, 12:00, local time.
std::time_t FixedNow() {
  std::tm tm{};
  tm.tm_year = 125;
  tm.tm_mon = 0;
  tm.tm_mday = 15;
  tm.tm_hour = 12;
  tm.tm_isdst = -1;
  return std::mktime(&tm);
}

struct Template {
  ChatTemplate program;
  std::map<std::string, std::string> special_tokens;
};

struct Fixtures {
  explicit Fixtures(const fs::path& folder) : folder_(folder) {
    conversations = ParseOrderedJson(ReadTextFile(folder / "conversations.json"), "conversations");
    const OrderedJson list = ParseOrderedJson(ReadTextFile(folder / "templates.json"), "templates");
    for (const OrderedJson& entry : list) {
      templates.emplace(entry["template"].get<std::string>(),
                        Template{ChatTemplate(ReadTextFile(folder / entry["file"].get<std::string>())),
                                 entry["variables"].get<std::map<std::string, std::string>>()});
    }
  }

  ChatInput InputFor(const OrderedJson& test) const {
    const OrderedJson& conversation = conversations.at(test["conversation"].get<std::string>());
    ChatInput input;
    input.messages = conversation["messages"];
    if (conversation.contains("tools")) input.tools = conversation["tools"];
    if (conversation.contains("extra")) input.extra = conversation["extra"];
    input.add_generation_prompt = test["add_generation_prompt"].get<bool>();
    input.special_tokens = templates.at(test["template"].get<std::string>()).special_tokens;
    input.now = FixedNow();
    return input;
  }

  std::vector<OrderedJson> Cases() const {
    std::vector<OrderedJson> cases;
    const std::string text = ReadTextFile(folder_ / "cases.jsonl");
    for (size_t pos = 0; pos < text.size();) {
      const size_t end = std::min(text.find('\n', pos), text.size());
      if (end > pos) cases.push_back(ParseOrderedJson(text.substr(pos, end - pos), "cases.jsonl"));
      pos = end + 1;
    }
    return cases;
  }

  fs::path folder_;
  OrderedJson conversations;
  std::map<std::string, Template> templates;
};

// Runs every case; returns how many there were.
size_t CheckAll(const fs::path& folder) {
  const Fixtures fixtures(folder);
  size_t count = 0;
  for (const OrderedJson& test : fixtures.Cases()) {
    ++count;
    SCOPED_TRACE(test["template"].get<std::string>() + " / " +
                 test["conversation"].get<std::string>());
    const ChatTemplate& program =
        fixtures.templates.at(test["template"].get<std::string>()).program;
    const ChatInput input = fixtures.InputFor(test);
    const bool fails = test.contains("expected_error");
    const bool raised = fails && test["expected_error"]["raised_by_template"].get<bool>();
    try {
      const MarkedText text = program.Render(input);
      if (!fails) {
        EXPECT_EQ(text.text, test["expected"].get<std::string>());
      }
      EXPECT_FALSE(raised) << "no error, but: " << text.text;
    } catch (const Error& error) {
      EXPECT_TRUE(fails) << error.message();
      if (raised) {
        EXPECT_EQ(error.message(), test["expected_error"]["message"].get<std::string>());
      }
    }
  }
  return count;
}

TEST(ChatTemplate, RendersBundledCases) {
  EXPECT_EQ(CheckAll(fs::path(HADAL_SOURCE_DIR) / "tests/data/chat"), 36u);
}

TEST(ChatTemplate, RendersAllFixtures) {
  const char* set = std::getenv("HADAL_FIXTURES");
  const fs::path folder =
      (set != nullptr ? fs::path(set) : fs::path(HADAL_SOURCE_DIR) / "../shared/fixtures") / "chat";
  if (!fs::exists(folder / "cases.jsonl")) GTEST_SKIP() << "no fixtures at " << folder;
  EXPECT_GE(CheckAll(folder), 396u);
}

}  // namespace
}  // namespace hadal
