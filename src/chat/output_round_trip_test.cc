// Templates show how their models write: what a template makes of an assistant's message has to be
// parsed back into that message. And what a trained model really wrote has to come apart.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "chat/history.h"
#include "chat/output_parser.h"

namespace hadal {
namespace {

namespace fs = std::filesystem;

fs::path FixtureDir() {
  const char* set = std::getenv("HADAL_FIXTURES");
  return set != nullptr ? fs::path(set) : fs::path(HADAL_SOURCE_DIR) / "../shared/fixtures";
}

OrderedJson Call(const char* name, const OrderedJson& arguments) {
  return {{"id", "call00001"},
          {"type", "function"},
          {"function", {{"name", name}, {"arguments", arguments}}}};
}

OrderedJson User(const char* text) {
  return {{"role", "user"}, {"content", text}};
}

// An assistant's message after a question, as an OpenAI client sends it.
OrderedJson Assistant(const char* content, const char* reasoning, const OrderedJson& calls) {
  OrderedJson message = {{"role", "assistant"}, {"content", content}};
  if (*reasoning != '\0') message["reasoning_content"] = reasoning;
  if (!calls.empty()) message["tool_calls"] = calls;
  return {User("Q 你好"), message};
}

std::vector<OrderedJson> Conversations(const OrderedJson& fixtures) {
  const OrderedJson one = OrderedJson::array(
      {Call("get_weather", R"({"city": "北京 \"</b>\"\n```", "days": [1, 2.5, null]})")});
  const OrderedJson two =
      OrderedJson::array({Call("f", "{}"), Call("g-2_x", R"({"a": {"b": "}"}})")});
  std::vector<OrderedJson> all = {
      Assistant("Hello.\n", "", {}),
      Assistant("  indented\n\nYes", "Hm.\n\n  Well <tool_call>", {}),
      Assistant("", "", one),
      Assistant("One moment.", "", one),
      Assistant("", "I need a tool.", two),
      Assistant("Both.", "Hm.", two),
      Assistant("", "", two),
  };
  for (const auto& [name, conversation] : fixtures.items()) {
    all.push_back(conversation["messages"]);
  }
  return all;
}

struct Subject {
  explicit Subject(const fs::path& folder, const OrderedJson& entry)
      : source(ReadTextFile(folder / entry["file"].get<std::string>())),
        program(source),
        special_tokens(entry["variables"].get<std::map<std::string, std::string>>()),
        style(ProbeHistoryStyle(program, special_tokens)) {}

  MarkedText Render(const OrderedJson& messages, bool generate) const {
    ChatInput input;
    input.messages = messages;
    input.special_tokens = special_tokens;
    input.add_generation_prompt = generate;
    input.tools = ParseOrderedJson(
        R"([{"type": "function", "function": {"name": "t", "description": "d", "parameters":
            {"type": "object", "properties": {"x": {"type": "string", "description": "d"}}}}}])",
        "tools");
    return program.Render(input);
  }

  std::string source;
  ChatTemplate program;
  std::map<std::string, std::string> special_tokens;
  HistoryStyle style;
};

std::string_view WithoutEnd(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  for (const std::string_view end : {"<｜end▁of▁sentence｜>", "<|im_end|>", "<|eot_id|>"}) {
    if (text.ends_with(end)) text.remove_suffix(end.size());
  }
  return text;
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsJsonSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsJsonSpace(text.back())) text.remove_suffix(1);
  return text;
}

void ExpectMessage(const ParsedOutput& output, const OrderedJson& message,
                   const std::string& text) {
  SCOPED_TRACE(text);
  if (text.find("<think>") != std::string::npos) {
    EXPECT_EQ(output.reasoning, message.value("reasoning_content", ""));
  }
  const OrderedJson calls = message.value("tool_calls", OrderedJson::array());
  ASSERT_EQ(output.tool_calls.size(), calls.size());
  // Some templates leave out the text beside calls, or trim it.
  const std::string content = message["content"].is_null() ? "" : message["content"];
  if (!output.content.empty() || calls.empty()) {
    EXPECT_TRUE(output.content == content || output.content == Trim(content)) << output.content;
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const OrderedJson& function = calls[i]["function"];
    EXPECT_EQ(output.tool_calls[i].name, function["name"]);
    if (function["arguments"].is_string()) {
      EXPECT_EQ(output.tool_calls[i].arguments, function["arguments"]);
    } else {
      EXPECT_EQ(ParseOrderedJson(output.tool_calls[i].arguments, "arguments"),
                function["arguments"]);
    }
  }
  EXPECT_TRUE(output.complete);
}

// Parses the last message back out of its rendering; false when the template refuses it.
bool RoundTrip(const Subject& subject, const OrderedJson& messages) {
  OrderedJson before = messages;
  before.erase(before.size() - 1);
  std::string full;
  MarkedText prompt;
  std::string history;
  try {
    full = subject.Render(messages, false).text;
    prompt = subject.Render(before, true);
    history = subject.Render(before, false).text;
  } catch (const Error&) {
    return false;
  }
  // Where a template drops old thoughts, the prompt's <think> is not in the history.
  size_t shared = 0;
  while (shared < std::min(full.size(), prompt.size()) && full[shared] == prompt.text[shared]) {
    ++shared;
  }
  const size_t marker = full.rfind('<', shared);
  if (shared < prompt.size() && full.find('>', marker) >= shared) shared = marker;
  if (shared < history.size()) return false;
  OutputParserOptions options;
  options.tool_format = DetectToolFormat(subject.source);
  options.reasoning = shared == prompt.size() ? ReasoningStartOf(prompt) : ReasoningStart::kNone;
  const std::string text(WithoutEnd(std::string_view(full).substr(shared)));
  ExpectMessage(ParseOutput(text, options), messages.back(), text);
  return true;
}

// Messages that came back, by template.
std::map<std::string, int> RoundTrips(const fs::path& folder) {
  std::map<std::string, int> counts;
  const OrderedJson fixtures =
      ParseOrderedJson(ReadTextFile(folder / "conversations.json"), "conversations");
  for (const OrderedJson& entry :
       ParseOrderedJson(ReadTextFile(folder / "templates.json"), "templates")) {
    const auto name = entry["template"].get<std::string>();
    const Subject subject(folder, entry);
    if (DetectToolFormat(subject.source) == ToolFormat::kNone) continue;
    for (const OrderedJson& conversation : Conversations(fixtures)) {
      const OrderedJson messages = PrepareMessages(conversation, subject.style, name);
      for (size_t i = 1; i < messages.size(); ++i) {
        if (messages[i]["role"] != "assistant") continue;
        // Templates take this for the end of a thought.
        if (messages[i].dump().find("</think>") != std::string::npos) continue;
        SCOPED_TRACE(name + " " + messages[i].dump());
        OrderedJson part(messages.begin(), messages.begin() + static_cast<ptrdiff_t>(i) + 1);
        counts[name] += RoundTrip(subject, part) ? 1 : 0;
      }
    }
  }
  return counts;
}

TEST(OutputRoundTrip, BundledTemplates) {
  const auto counts = RoundTrips(fs::path(HADAL_SOURCE_DIR) / "tests/data/chat");
  for (const auto& [name, count] : counts) EXPECT_GE(count, 13) << name;
  EXPECT_EQ(counts.size(), 2u);
}

TEST(OutputRoundTrip, AllTemplates) {
  const fs::path folder = FixtureDir() / "chat";
  if (!fs::exists(folder / "templates.json")) GTEST_SKIP() << "no fixtures at " << folder;
  const auto counts = RoundTrips(folder);
  for (const auto& [name, count] : counts) EXPECT_GE(count, 9) << name;
  EXPECT_GE(counts.size(), 12u);
}

TEST(OutputRoundTrip, FormatsAndStylesOfTemplates) {
  const fs::path folder = FixtureDir() / "chat";
  if (!fs::exists(folder / "templates.json")) GTEST_SKIP() << "no fixtures at " << folder;
  struct Expected {
    ToolFormat format = ToolFormat::kNone;
    bool argument_objects = false;
    bool null_content = false;
    bool split = false;
  };
  constexpr Expected kV3{ToolFormat::kDeepSeek, false, true, true};
  const std::map<std::string, Expected> expected = {
      {"deepseek_v3", kV3},
      {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", kV3},
      {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", kV3},
      {"llama-cpp-deepseek-r1", kV3},
      {"deepseek-ai-DeepSeek-V3.1", {ToolFormat::kDeepSeek, true}},
      {"qwen3", {ToolFormat::kHermes}},
      {"Qwen-Qwen3-0.6B", {ToolFormat::kHermes}},
      {"Qwen-Qwen2.5-7B-Instruct", {ToolFormat::kHermes, true}},
      {"Qwen-QwQ-32B", {ToolFormat::kHermes, true}},
      {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", {ToolFormat::kHermes}},
      {"meta-llama-Llama-3.1-8B-Instruct", {ToolFormat::kLlama, true}},
      {"meta-llama-Llama-3.2-3B-Instruct", {ToolFormat::kLlama, true}},
  };
  size_t known = 0;
  for (const OrderedJson& entry :
       ParseOrderedJson(ReadTextFile(folder / "templates.json"), "templates")) {
    const auto name = entry["template"].get<std::string>();
    SCOPED_TRACE(name);
    const Subject subject(folder, entry);
    const auto found = expected.find(name);
    if (found == expected.end()) {
      EXPECT_EQ(DetectToolFormat(subject.source), ToolFormat::kNone);
      continue;
    }
    ++known;
    EXPECT_EQ(DetectToolFormat(subject.source), found->second.format);
    EXPECT_EQ(subject.style.argument_objects, found->second.argument_objects);
    EXPECT_EQ(subject.style.null_content, found->second.null_content);
    EXPECT_EQ(subject.style.split_text_and_calls, found->second.split);
  }
  EXPECT_EQ(known, expected.size());
}

// The model's own answers: put together again they are what it wrote.
TEST(OutputRoundTrip, AnswersOfTheReefModel) {
  const fs::path folder = FixtureDir() / "reef";
  if (!fs::exists(folder / "golden.json")) GTEST_SKIP() << "no fixtures at " << folder;
  const OrderedJson config = ParseOrderedJson(ReadTextFile(folder / "reef/tokenizer_config.json"),
                                              "tokenizer_config.json");
  const auto source = config["chat_template"].get<std::string>();
  OutputParserOptions options;
  options.tool_format = DetectToolFormat(source);
  int thoughts = 0;
  int calls = 0;
  const OrderedJson golden = ParseOrderedJson(ReadTextFile(folder / "golden.json"), "golden");
  for (const OrderedJson& test : golden["cases"]) {
    const auto text = test["text"].get<std::string>();
    const bool thinks = text.find("</think>") != std::string::npos;
    options.reasoning = thinks ? ReasoningStart::kOpen : ReasoningStart::kNone;
    const ParsedOutput output = ParseOutput(WithoutEnd(text), options);
    thoughts += output.reasoning.empty() ? 0 : 1;
    std::string again = output.reasoning + (thinks ? "</think>" : "") + output.content;
    if (!output.tool_calls.empty()) again += "<｜tool▁calls▁begin｜>";
    for (const ParsedOutput::Call& call : output.tool_calls) {
      ++calls;
      EXPECT_TRUE(Json::accept(call.arguments)) << call.arguments;
      again += "<｜tool▁call▁begin｜>" + call.name + "<｜tool▁sep｜>" + call.arguments +
               "<｜tool▁call▁end｜>";
    }
    if (!output.tool_calls.empty()) again += "<｜tool▁calls▁end｜>";
    EXPECT_EQ(again, WithoutEnd(text));
    EXPECT_EQ(output.content.find("<｜"), std::string::npos) << output.content;
  }
  EXPECT_EQ(thoughts, 21);
  EXPECT_EQ(calls, 6);
}

}  // namespace
}  // namespace hadal
