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

std::vector<OrderedJson> ReadLines(const fs::path& path) {
  std::vector<OrderedJson> lines;
  const std::string text = ReadTextFile(path);
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = std::min(text.find('\n', pos), text.size());
    if (end > pos) lines.push_back(ParseOrderedJson(text.substr(pos, end - pos), path.string()));
    pos = end + 1;
  }
  return lines;
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
      templates.emplace(
          entry["template"].get<std::string>(),
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

  std::vector<OrderedJson> Cases() const { return ReadLines(folder_ / "cases.jsonl"); }

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

// Small templates, rendered by jinja2 (tools/make_goldens/jinja_cases.py).
TEST(ChatTemplate, AgreesWithJinja) {
  const std::vector<OrderedJson> lines =
      ReadLines(fs::path(HADAL_SOURCE_DIR) / "tests/data/chat/jinja_cases.jsonl");
  ASSERT_GT(lines.size(), 500u);
  ChatInput input;
  input.extra = lines[0].at("context");
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::string source = lines[i]["template"].get<std::string>();
    SCOPED_TRACE(source);
    const bool fails = lines[i].contains("error");
    try {
      const MarkedText text = ChatTemplate(source).Render(input);
      if (fails) {
        ADD_FAILURE() << "no error, but: " << text.text;
      } else {
        EXPECT_EQ(text.text, lines[i]["expected"].get<std::string>());
      }
    } catch (const Error& error) {
      EXPECT_TRUE(fails) << error.message();
    }
  }
}

std::string ErrorOf(std::string_view source) {
  try {
    ChatInput input;
    return ChatTemplate(source).Render(input).text;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    return error.message();
  }
}

TEST(ChatTemplate, ErrorsNameTheLine) {
  EXPECT_EQ(ErrorOf("a\n{% if x %}"), "chat template, line 2: `endif` is missing");
  EXPECT_EQ(ErrorOf("\n\n{{ x.y }}"), "chat template, line 3: 'x' is undefined");
  EXPECT_EQ(ErrorOf("\n{{ 'a\n' +\n1 }}"),
            "chat template, line 3: can only concatenate str (not \"int\") to str");
  EXPECT_EQ(ErrorOf("{{ raise_exception('as it is') }}"), "as it is");
}

TEST(ChatTemplate, ShowsTheTime) {
  ChatInput input;
  input.now = FixedNow();
  EXPECT_EQ(ChatTemplate("{{ strftime_now('%d %B %Y, %H:%M') }}").Render(input).text,
            "15 January 2025, 12:00");
}

}  // namespace
}  // namespace hadal
