#include "chat/conversation.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace hadal {
namespace {

std::string ErrorOf(std::string_view text) {
  try {
    ParseChatInput(text, "chat.json");
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

TEST(ParseChatInput, ReadsEverything) {
  const ChatInput input = ParseChatInput(
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}], "name": "x"},
                       {"role": "assistant", "content": null}, {"role": "tool"}],
          "tools": [{"b": 1, "a": 2}], "add_generation_prompt": true, "extra": {"k": 1}})",
      "chat.json");
  EXPECT_EQ(input.messages.size(), 3u);
  EXPECT_EQ(input.messages[0]["content"][0]["text"], "a");
  EXPECT_EQ(input.tools.dump(), R"([{"b":1,"a":2}])");
  EXPECT_TRUE(input.documents.is_null());
  EXPECT_TRUE(input.add_generation_prompt);
  EXPECT_EQ(input.extra["k"], 1);
}

TEST(ParseChatInput, NamesThePlaceOfAnError) {
  EXPECT_EQ(ErrorOf("[]"), "chat.json: an object is expected");
  EXPECT_EQ(ErrorOf("{}"), "chat.json: messages is missing");
  EXPECT_EQ(ErrorOf(R"({"messages": []})"), "chat.json: messages is empty");
  EXPECT_EQ(ErrorOf(R"({"messages": {}})"), "chat.json: messages is not an array");
  EXPECT_EQ(ErrorOf(R"({"messages": ["a"]})"), "chat.json: messages[0] is not an object");
  EXPECT_EQ(ErrorOf(R"({"messages": [{"role": "user"}, {}]})"),
            "chat.json: messages[1].role is missing");
  EXPECT_EQ(ErrorOf(R"({"messages": [{"role": 1}]})"),
            "chat.json: messages[0].role is not a string");
  EXPECT_EQ(ErrorOf(R"({"messages": [{"role": "user", "content": 5}]})"),
            "chat.json: messages[0].content is not a string, null or an array of parts");
  EXPECT_EQ(ErrorOf(R"({"messages": [{"role": "user", "content": [5]}]})"),
            "chat.json: messages[0].content[0] is not an object");
  EXPECT_EQ(ErrorOf(R"({"messages": [{"role": "user", "content": [{}]}]})"),
            "chat.json: messages[0].content[0].type is missing or not a string");
  EXPECT_EQ(ErrorOf(R"({"messages": [{"role": "user"}], "tools": {}})"),
            "chat.json: tools is not an array");
  EXPECT_EQ(ErrorOf(R"({"messages": [{"role": "user"}], "tools": [1]})"),
            "chat.json: tools[0] is not an object");
  EXPECT_EQ(ErrorOf(R"({"messages": [{"role": "user"}], "extra": []})"),
            "chat.json: extra is not an object");
  EXPECT_EQ(ErrorOf(R"({"messages": [{"role": "user"}], "add_generation_prompt": 1})"),
            "chat.json: add_generation_prompt is not true or false");
  EXPECT_EQ(
      ErrorOf(R"({"messages": [{"role": "user"}], "enable_thinking": true})"),
      "chat.json: enable_thinking is not known here; variables of the template go into extra");
  EXPECT_NE(ErrorOf("{"), "");
}

}  // namespace
}  // namespace hadal
