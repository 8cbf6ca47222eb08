#include "chat/history.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace hadal {
namespace {

OrderedJson Prepare(std::string_view messages, const HistoryStyle& style = {}) {
  return PrepareMessages(ParseOrderedJson(messages, "test"), style, "request");
}

std::string ErrorOf(std::string_view messages) {
  try {
    Prepare(messages);
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

void ExpectJson(const OrderedJson& json, std::string_view expected) {
  EXPECT_EQ(json, ParseOrderedJson(expected, "test")) << json.dump();
}

constexpr HistoryStyle kObjects = {.argument_objects = true};

TEST(PrepareMessages, Texts) {
  ExpectJson(Prepare(R"([{"role": "developer", "content": "d", "name": "n", "audio": null},
                         {"role": "user", "content": [{"type": "text", "text": "a"},
                                                      {"type": "text", "text": "b"}]},
                         {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}],
                          "refusal": null, "tool_calls": []},
                         {"role": "tool", "tool_call_id": "1", "name": "f", "content": "x"},
                         {"role": "assistant", "content": null, "tool_calls": null}])"),
             R"([{"role": "system", "content": "d", "name": "n"},
                 {"role": "user", "content": "a\nb"},
                 {"role": "assistant", "content": "no"},
                 {"role": "tool", "tool_call_id": "1", "name": "f", "content": "x"},
                 {"role": "assistant", "content": ""}])");
}

TEST(PrepareMessages, Thoughts) {
  const auto assistant = [](const std::string& members) {
    return Prepare("[{\"role\": \"assistant\", " + members + "}]")[0];
  };
  ExpectJson(assistant(R"("content": "a", "reasoning": "r")"),
             R"({"role": "assistant", "content": "a", "reasoning_content": "r"})");
  ExpectJson(assistant(R"("content": "a", "reasoning": "x", "reasoning_content": "r")"),
             R"({"role": "assistant", "content": "a", "reasoning_content": "r"})");
  ExpectJson(assistant(R"("content": " <think>\nr\n\ns\n</think>\n\n a<think>b</think>")"),
             R"({"role": "assistant", "content": " a<think>b</think>",
                 "reasoning_content": "r\n\ns"})");
  ExpectJson(assistant(R"("content": "<think>x</think>a", "reasoning_content": "r")"),
             R"({"role": "assistant", "content": "<think>x</think>a", "reasoning_content": "r"})");
  for (const char* content : {"<think>a", "a<think>b</think>", "a</think>b"}) {
    ExpectJson(assistant(std::string("\"content\": \"") + content + "\""),
               std::string("{\"role\": \"assistant\", \"content\": \"") + content + "\"}");
  }
  // Only assistants think.
  ExpectJson(Prepare(R"([{"role": "user", "content": "<think>x</think>a"}])"),
             R"([{"role": "user", "content": "<think>x</think>a"}])");
}

// The arguments of one call after preparation.
OrderedJson Arguments(std::string_view given, const HistoryStyle& style) {
  const std::string messages =
      R"([{"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f")" +
      std::string(given) + "}}]}]";
  return Prepare(messages, style)[0]["tool_calls"][0]["function"]["arguments"];
}

TEST(PrepareMessages, Arguments) {
  EXPECT_EQ(Arguments(R"(, "arguments": "{ \"a\":1}")", {}), "{ \"a\":1}");
  EXPECT_EQ(Arguments(R"(, "arguments": "{ \"b\":1, \"a\": \"é\"}")", kObjects).dump(),
            R"({"b":1,"a":"é"})");
  EXPECT_EQ(Arguments(R"(, "arguments": {"b": 1, "a": "é"})", {}), R"({"b": 1, "a": "é"})");
  EXPECT_EQ(Arguments(R"(, "arguments": {"b": 1})", kObjects).dump(), R"({"b":1})");
  EXPECT_EQ(Arguments(R"(, "arguments": "{broken")", kObjects), "{broken");
  EXPECT_EQ(Arguments(R"(, "arguments": "[1]")", kObjects), "[1]");
  EXPECT_EQ(Arguments(R"(, "arguments": "")", {}), "{}");
  EXPECT_EQ(Arguments("", {}), "{}");
  EXPECT_EQ(Arguments("", kObjects), OrderedJson::object());
}

TEST(PrepareMessages, ContentBesideCalls) {
  constexpr std::string_view kMessages =
      R"([{"role": "assistant", "content": "a", "reasoning": "r",
           "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]},
          {"role": "assistant", "content": "",
           "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]}])";
  HistoryStyle style{.null_content = true};
  OrderedJson messages = Prepare(kMessages, style);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0]["content"], "a");
  EXPECT_TRUE(messages[1]["content"].is_null());
  style.split_text_and_calls = true;
  messages = Prepare(kMessages, style);
  ASSERT_EQ(messages.size(), 3u);
  ExpectJson(messages[0], R"({"role": "assistant", "content": "a", "reasoning_content": "r"})");
  EXPECT_TRUE(messages[1]["content"].is_null());
  EXPECT_EQ(messages[1]["tool_calls"].size(), 1u);
  EXPECT_FALSE(messages[1].contains("reasoning_content"));
}

TEST(PrepareMessages, OlderFunctionCalls) {
  const OrderedJson messages = Prepare(R"([
      {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
      {"role": "function", "name": "f", "content": "1"}])");
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_FALSE(messages[0].contains("function_call"));
  EXPECT_EQ(messages[0]["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(messages[1]["role"], "tool");
  EXPECT_EQ(messages[1]["tool_call_id"], messages[0]["tool_calls"][0]["id"]);
}

TEST(PrepareMessages, NamesThePlaceOfAnError) {
  EXPECT_EQ(ErrorOf("[]"), "request: messages is empty");
  EXPECT_EQ(ErrorOf(R"([{"role": "user", "content": [{"type": "text", "text": "a"},
                                                     {"type": "image_url"}]}])"),
            "request: messages[0].content[1] has type 'image_url': this model reads text only");
  EXPECT_EQ(ErrorOf(R"([{"role": "user", "content": [{"type": "text"}]}])"),
            "request: messages[0].content[0].text is missing or not a string");
  EXPECT_EQ(ErrorOf(R"([{"role": "assistant", "reasoning": 1}])"),
            "request: messages[0].reasoning is not a string");
  EXPECT_EQ(ErrorOf(R"([{"role": "assistant", "tool_calls": 1}])"),
            "request: messages[0].tool_calls is not an array");
  EXPECT_EQ(ErrorOf(R"([{"role": "assistant", "tool_calls": [1]}])"),
            "request: messages[0].tool_calls[0] is not an object");
  EXPECT_EQ(ErrorOf(R"([{"role": "assistant", "tool_calls": [{}]}])"),
            "request: messages[0].tool_calls[0].function is missing or not an object");
  EXPECT_EQ(ErrorOf(R"([{"role": "assistant", "tool_calls": [{"function": {}}]}])"),
            "request: messages[0].tool_calls[0].function.name is missing or not a string");
  EXPECT_EQ(ErrorOf(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f",
                         "arguments": 1}}]}])"),
            "request: messages[0].tool_calls[0].function.arguments is neither a string nor an "
            "object");
}

TEST(ProbeHistoryStyle, TemplateWithoutTools) {
  const HistoryStyle style = ProbeHistoryStyle(ChatTemplate("{{ messages[0].content }}"), {});
  EXPECT_FALSE(style.argument_objects || style.null_content || style.split_text_and_calls);
}

}  // namespace
}  // namespace hadal
