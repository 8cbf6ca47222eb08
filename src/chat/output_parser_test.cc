#include "chat/output_parser.h"

#include <gtest/gtest.h>

#include <ostream>
#include <random>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/incremental_decoder.h"

namespace hadal {

void PrintTo(const ParsedOutput& output, std::ostream* out) {
  *out << "reasoning=[" << output.reasoning << "] content=[" << output.content << "]";
  for (const ParsedOutput::Call& call : output.tool_calls) {
    *out << " " << call.id << "=" << call.name << "(" << call.arguments << ")";
  }
  if (!output.complete) *out << " incomplete";
}

namespace {

using Calls = std::vector<ParsedOutput::Call>;
using Start = ReasoningStart;

OutputParserOptions Options(ToolFormat format, Start reasoning = Start::kNone) {
  OutputParserOptions options;
  options.reasoning = reasoning;
  options.tool_format = format;
  options.make_id = [](size_t index) { return std::to_string(index); };
  return options;
}

ParsedOutput ParsePieces(const std::vector<std::string_view>& pieces,
                         const OutputParserOptions& options) {
  OutputParser parser(options);
  ParsedOutput output;
  const auto add = [&](const OutputDelta& delta) {
    for (const std::string* text : {&delta.reasoning, &delta.content}) {
      EXPECT_EQ(FindInvalidUtf8(*text), std::string::npos);
    }
    for (const ToolCallDelta& call : delta.tool_calls) {
      EXPECT_EQ(FindInvalidUtf8(call.name + call.arguments), std::string::npos);
    }
    output.Add(delta);
  };
  for (const std::string_view piece : pieces) add(parser.Push(piece));
  add(parser.Finish());
  output.complete = parser.complete();
  return output;
}

std::vector<std::string_view> Cut(std::string_view text, std::mt19937& random) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const size_t size = std::min<size_t>(text.size(), random() % 9);
    pieces.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return pieces;
}

// The result, which has to be the same for every way to cut the text.
ParsedOutput Parse(std::string_view text, const OutputParserOptions& options) {
  const ParsedOutput whole = ParseOutput(text, options);
  std::vector<std::string_view> bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    bytes.push_back(text.substr(i, 1));
    EXPECT_EQ(ParsePieces({text.substr(0, i), text.substr(i)}, options), whole) << "cut at " << i;
  }
  EXPECT_EQ(ParsePieces(bytes, options), whole) << "byte by byte";
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ParsePieces(Cut(text, random), options), whole);
  return whole;
}

// --- Reasoning -----------------------------------------------------------------------------------

ParsedOutput Think(std::string_view text, Start start) {
  return Parse(text, Options(ToolFormat::kNone, start));
}

TEST(OutputParser, ThoughtThatTheModelOpens) {
  EXPECT_EQ(Think("<think>\nhm\n\nok\n</think>\n\nYes.\n", Start::kMaybe),
            (ParsedOutput{"hm\n\nok", "Yes.\n"}));
  EXPECT_EQ(Think(" \n<think>hm</think>  Yes", Start::kMaybe), (ParsedOutput{"hm", "  Yes"}));
  EXPECT_EQ(Think("<think>\n\n</think>\n\nYes", Start::kMaybe), (ParsedOutput{"", "Yes"}));
}

TEST(OutputParser, ThoughtsBeginOnlyAtTheStart) {
  EXPECT_EQ(Think("I say <think>x</think>", Start::kMaybe),
            (ParsedOutput{"", "I say <think>x</think>"}));
  EXPECT_EQ(Think(" \n<thin k", Start::kMaybe), (ParsedOutput{"", " \n<thin k"}));
  EXPECT_EQ(Think("\n\nYes\n", Start::kMaybe), (ParsedOutput{"", "\n\nYes\n"}));
  EXPECT_EQ(Think("<think>a</think>b<think>c</think>", Start::kMaybe),
            (ParsedOutput{"a", "b<think>c</think>"}));
  EXPECT_EQ(Think("a</think>b", Start::kMaybe), (ParsedOutput{"", "a</think>b"}));
}

TEST(OutputParser, ThoughtThatThePromptOpened) {
  EXPECT_EQ(Think("\nhm <think> \n</think>\nYes", Start::kOpen),
            (ParsedOutput{"hm <think> ", "Yes"}));
  EXPECT_EQ(Think("<think>\nhm</think>Yes", Start::kOpen), (ParsedOutput{"hm", "Yes"}));
  EXPECT_EQ(Think("</think>Yes", Start::kOpen), (ParsedOutput{"", "Yes"}));
  EXPECT_EQ(Think("a\n</thin>\n\n</think>", Start::kOpen), (ParsedOutput{"a\n</thin>", ""}));
}

TEST(OutputParser, UnclosedThoughtIsAllReasoning) {
  EXPECT_EQ(Think("hm\n\n</thi", Start::kOpen), (ParsedOutput{"hm\n\n</thi", ""}));
  EXPECT_EQ(Think("<think>hm", Start::kMaybe), (ParsedOutput{"hm", ""}));
  EXPECT_EQ(Think("<thi", Start::kOpen), (ParsedOutput{"<thi", ""}));
  EXPECT_EQ(Think("<thi", Start::kMaybe), (ParsedOutput{"", "<thi"}));
  EXPECT_EQ(Think("", Start::kOpen), ParsedOutput{});
}

TEST(OutputParser, WithoutThinkingTextPasses) {
  EXPECT_EQ(Think("\n<think>a</think>\n\nb", Start::kNone),
            (ParsedOutput{"", "\n<think>a</think>\n\nb"}));
}

TEST(OutputParser, CallsInsideThoughtsAreNotCalls) {
  const std::string call = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  EXPECT_EQ(Parse(call + "</think>" + call, Options(ToolFormat::kHermes, Start::kOpen)),
            (ParsedOutput{call, "", Calls{{"0", "f", "{}"}}}));
  EXPECT_EQ(Parse(call, Options(ToolFormat::kHermes, Start::kOpen)), (ParsedOutput{call, ""}));
}

TEST(OutputParser, TellsWhenItIsInsideAThought) {
  OutputParser parser(Options(ToolFormat::kNone, Start::kMaybe));
  parser.Push("<thi");
  EXPECT_FALSE(parser.in_reasoning());
  parser.Push("nk>a</think");
  EXPECT_TRUE(parser.in_reasoning());
  parser.Push(">");
  EXPECT_FALSE(parser.in_reasoning());
}

TEST(OutputParser, HoldsBackOnlyWhatMayBecomeAMarker) {
  OutputParser parser(Options(ToolFormat::kHermes, Start::kOpen));
  EXPECT_EQ(parser.Push("hm\n").reasoning, "hm");
  EXPECT_EQ(parser.Push("\nno</th").reasoning, "\n\nno");
  EXPECT_EQ(parser.Push("e").reasoning, "</the");
  EXPECT_EQ(parser.Push("</think>\n\nYes <t").content, "Yes ");
  EXPECT_EQ(parser.Push("x").content, "<tx");
  EXPECT_EQ(parser.Push("\n<tool_call>\n{\"name\": \"f\", \"argum").content, "");
  EXPECT_EQ(parser.Push("ents\": {\"a\"").tool_calls,
            (std::vector<ToolCallDelta>{{0, "0", "f", "{\"a\""}}));
  EXPECT_EQ(parser.Push(": 1").tool_calls, (std::vector<ToolCallDelta>{{0, "", "", ": 1"}}));
  EXPECT_EQ(parser.Push("}").tool_calls, (std::vector<ToolCallDelta>{{0, "", "", "}"}}));
  EXPECT_TRUE(parser.Push("}\n</tool_call>").empty());
  EXPECT_TRUE(parser.Finish().empty());
  EXPECT_TRUE(parser.complete());
}

TEST(OutputParser, IllFormedTextBecomesReplacementCharacters) {
  EXPECT_EQ(Think("a\xE4\xBD", Start::kNone), (ParsedOutput{"", "a\uFFFD"}));
  EXPECT_EQ(Think("\xFF<think>", Start::kMaybe), (ParsedOutput{"", "\uFFFD<think>"}));
}

// --- DeepSeek ------------------------------------------------------------------------------------

constexpr std::string_view kBegin = "<｜tool▁calls▁begin｜>";
constexpr std::string_view kEnd = "<｜tool▁calls▁end｜>";

std::string V3(std::string_view name, std::string_view arguments) {
  return "<｜tool▁call▁begin｜>function<｜tool▁sep｜>" + std::string(name) + "\n```json\n" +
         std::string(arguments) + "\n```<｜tool▁call▁end｜>";
}

std::string V31(std::string_view name, std::string_view arguments) {
  return "<｜tool▁call▁begin｜>" + std::string(name) + "<｜tool▁sep｜>" + std::string(arguments) +
         "<｜tool▁call▁end｜>";
}

std::string Section(const std::string& calls) {
  return std::string(kBegin) + calls + std::string(kEnd);
}

ParsedOutput DeepSeek(std::string_view text, Start start = Start::kNone) {
  return Parse(text, Options(ToolFormat::kDeepSeek, start));
}

TEST(DeepSeekCalls, BothLayouts) {
  const Calls two = {{"0", "get_weather", "{\"city\": \"北京\"}"}, {"1", "add", "{\"a\":1.50}"}};
  EXPECT_EQ(DeepSeek("One moment.\n\n" + Section(V3("get_weather", "{\"city\": \"北京\"}") + "\n" +
                                                 V3("add", "{\"a\":1.50}"))),
            (ParsedOutput{"", "One moment.", two}));
  EXPECT_EQ(DeepSeek("hm</think>" + Section(V31("get_weather", "{\"city\": \"北京\"}") +
                                            V31("add", "{\"a\":1.50}")),
                     Start::kOpen),
            (ParsedOutput{"hm", "", two}));
}

TEST(DeepSeekCalls, ArgumentsAreByteExact) {
  const std::string arguments =
      "{ \"code\" :\"a\\n```\\n<｜tool▁call▁begin｜> \\u00e9\",\n \"x\":[ ]}";
  EXPECT_EQ(DeepSeek(Section(V3("run", arguments))).tool_calls, (Calls{{"0", "run", arguments}}));
  EXPECT_EQ(DeepSeek(Section(V31("run", arguments))).tool_calls, (Calls{{"0", "run", arguments}}));
}

TEST(DeepSeekCalls, SmallDeviations) {
  // No outer markers; space around parts; no fence; a fence on a line of its own.
  const ParsedOutput one{"", "", Calls{{"0", "f", "{\"a\": 1}"}}};
  EXPECT_EQ(DeepSeek(V31("f", "{\"a\": 1}")), one);
  EXPECT_EQ(DeepSeek(std::string(kBegin) + "\n" + V31(" f ", "\n{\"a\": 1}\n") + "\n"), one);
  EXPECT_EQ(DeepSeek("<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n{\"a\": 1}<｜tool▁call▁end｜>"),
            one);
  EXPECT_EQ(DeepSeek("<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": 1}\n```\n"
                     "<｜tool▁call▁end｜>"),
            one);
  EXPECT_EQ(DeepSeek(Section(V31("f", "{}")) + "\nDone."),
            (ParsedOutput{"", "Done.", Calls{{"0", "f", "{}"}}}));
}

TEST(DeepSeekCalls, MalformedOnesAreContent) {
  for (const std::string& text : {
           Section("nothing"),
           Section(V31("", "{}")),
           Section(V31("f", "5")),
           Section(V3("f", "[1]")),
           Section("<｜tool▁call▁begin｜>f<｜tool▁call▁end｜>"),
           "a" + std::string(kEnd) + "b<｜tool▁sep｜>",
           V31(std::string(600, 'n'), "{}"),
           V31("two\nlines", "{}"),
       }) {
    EXPECT_EQ(DeepSeek(text), (ParsedOutput{"", text}));
  }
  // A call after a broken one is found.
  const std::string broken = std::string(kBegin) + "<｜tool▁call▁begin｜>f";
  EXPECT_EQ(DeepSeek(broken + V31("g", "{}")), (ParsedOutput{"", broken, Calls{{"0", "g", "{}"}}}));
  // Once arguments have begun the call stands, whatever they are.
  EXPECT_EQ(DeepSeek(Section(V31("f", "{\"a\": oops"))),
            (ParsedOutput{"", "", Calls{{"0", "f", "{\"a\": oops"}}}));
}

TEST(DeepSeekCalls, CutShort) {
  const std::string text = Section(V3("f", "{\"a\": 1}"));
  const size_t arguments = text.find('{');
  const size_t arguments_end = text.find('}');
  for (size_t size = kBegin.size(); size < text.size(); ++size) {
    const std::string cut = text.substr(0, size);
    if (CompleteUtf8Prefix(cut) != size) continue;
    const ParsedOutput output = ParseOutput(cut, Options(ToolFormat::kDeepSeek));
    SCOPED_TRACE(cut);
    EXPECT_EQ(output.complete, size > arguments_end);
    if (size <= arguments) {
      EXPECT_EQ(output, (ParsedOutput{"", cut, {}, false}));
    } else {
      const std::string so_far = cut.substr(arguments, arguments_end + 1 - arguments);
      EXPECT_EQ(output.tool_calls, (Calls{{"0", "f", so_far}}));
      EXPECT_EQ(output.content, "");
    }
  }
}

// --- Hermes --------------------------------------------------------------------------------------

ParsedOutput Hermes(std::string_view text) {
  return Parse(text, Options(ToolFormat::kHermes));
}

std::string Tagged(std::string_view json) {
  return "<tool_call>\n" + std::string(json) + "\n</tool_call>";
}

TEST(HermesCalls, OneAndSeveral) {
  EXPECT_EQ(
      Hermes("Let me see.\n" + Tagged(R"({"name": "f", "arguments": {"a": "}</b>\"", "b": [1]}})") +
             "\n" + Tagged(R"({"name":"g","arguments":{}})") + "\n"),
      (ParsedOutput{"", "Let me see.",
                    Calls{{"0", "f", R"({"a": "}</b>\"", "b": [1]})"}, {"1", "g", "{}"}}}));
  EXPECT_EQ(Hermes(Tagged(R"({"name": "f", "arguments": {}})") + "Done.\n"),
            (ParsedOutput{"", "Done.\n", Calls{{"0", "f", "{}"}}}));
}

TEST(HermesCalls, OtherOrdersAndForms) {
  EXPECT_EQ(Hermes(Tagged(R"({"arguments": {"a" : 1}, "name": "f"})")).tool_calls,
            (Calls{{"0", "f", R"({"a" : 1})"}}));
  EXPECT_EQ(
      Hermes(
          Tagged(R"({"id": 7, "type": "function", "name": "\u0066", "parameters": {}, "x": "}"})"))
          .tool_calls,
      (Calls{{"0", "f", "{}"}}));
  // Arguments that are a string already; none at all.
  EXPECT_EQ(Hermes(Tagged(R"({"name": "f", "arguments": "{\"a\": \"\u00e9\"}"})")).tool_calls,
            (Calls{{"0", "f", R"({"a": "é"})"}}));
  EXPECT_EQ(Hermes(Tagged(R"({"name": "f"})")), (ParsedOutput{"", "", Calls{{"0", "f", "{}"}}}));
  // A marker in a string is text; a missing bracket is forgiven.
  EXPECT_EQ(Hermes(Tagged(R"({"name": "f", "arguments": {"a": "</tool_call>"}})")).tool_calls,
            (Calls{{"0", "f", R"({"a": "</tool_call>"})"}}));
  EXPECT_EQ(Hermes(Tagged(R"({"name": "f", "arguments": {"a": 1})")),
            (ParsedOutput{"", "", Calls{{"0", "f", R"({"a": 1})"}}}));
  EXPECT_EQ(Hermes(Tagged(R"({"name": "f", "arguments": {"a": 1)") + "x"),
            (ParsedOutput{"", "x", Calls{{"0", "f", "{\"a\": 1\n"}}}));
}

TEST(HermesCalls, MalformedOnesAreContent) {
  for (const std::string& text : {
           Tagged("{\"arguments\": {}}"),
           Tagged("{\"name\": 5, \"arguments\": {}}"),
           Tagged("{\"name\": \"\", \"arguments\": {}}"),
           Tagged("{\"name\": \"f\", \"arguments\": [1]}"),
           Tagged("{\"name\": \"f\", \"arguments\": null}"),
           Tagged("{\"name\": \"a\", \"name\": \"b\", \"arguments\": {}}"),
           Tagged("{\"function\": \"f\", \"arguments\": {}}"),
           Tagged("{'name': 'f'}"),
           Tagged("f(1)"),
           Tagged(""),
           std::string("a\n</tool_call>\nb"),
           "\n\n" + Tagged("[]"),
       }) {
    EXPECT_EQ(Hermes(text), (ParsedOutput{"", text}));
  }
  const std::string broken = "<tool_call>\n{\"nome\"";
  EXPECT_EQ(Hermes(broken + Tagged("{\"name\": \"f\"}")),
            (ParsedOutput{"", broken, Calls{{"0", "f", "{}"}}}));
}

TEST(HermesCalls, CutShort) {
  const std::string text = Tagged(R"({"name": "f", "arguments": {"a": "x"}})");
  const size_t arguments = text.rfind('{');
  const size_t arguments_end = text.find('}');
  for (size_t size = 1; size < text.size(); ++size) {
    const std::string cut = text.substr(0, size);
    SCOPED_TRACE(cut);
    const ParsedOutput output = ParseOutput(cut, Options(ToolFormat::kHermes));
    EXPECT_EQ(output.complete, size < sizeof("<tool_call>") - 1 || size > arguments_end);
    EXPECT_EQ(output.content, size <= arguments ? cut : "");
    EXPECT_EQ(output.tool_calls.size(), size <= arguments ? 0u : 1u);
  }
}

// --- Llama ---------------------------------------------------------------------------------------

ParsedOutput Llama(std::string_view text) {
  return Parse(text, Options(ToolFormat::kLlama));
}

TEST(LlamaCalls, WholeAnswer) {
  EXPECT_EQ(Llama(R"( {"name": "f", "parameters": {"a": "x;y"}})"),
            (ParsedOutput{"", "", Calls{{"0", "f", R"({"a": "x;y"})"}}}));
  EXPECT_EQ(Llama("<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}\n"),
            (ParsedOutput{"", "", Calls{{"0", "f", "{}"}}}));
  EXPECT_EQ(Llama(R"({"name": "f", "parameters": {}}; {"name": "g", "arguments": {"b": 1}};)"),
            (ParsedOutput{"", "", Calls{{"0", "f", "{}"}, {"1", "g", R"({"b": 1})"}}}));
  EXPECT_EQ(Llama("I call.\n<|python_tag|>{\"name\": \"f\", \"parameters\": {}}"),
            (ParsedOutput{"", "I call.", Calls{{"0", "f", "{}"}}}));
}

TEST(LlamaCalls, OtherJsonIsContent) {
  for (const char* text : {
           R"({"city": "Paris"})",
           R"({"name": "Bob", "age": 3})",
           R"({"name": "Bob"})",
           R"({"name": "Bob", "parameters": 3})",
           "{}",
           "\n{ not json",
           "Look: {\"name\": \"f\", \"parameters\": {}}",
           "<|python_tag|>brave_search.call(query=\"x\")",
           "a ; b <|python",
           "\n",
           "{\"na",
       }) {
    EXPECT_EQ(Llama(text), (ParsedOutput{"", text}));
  }
  EXPECT_EQ(Llama(R"({"name": "f", "parameters": {}} and {"x": 1}; y)"),
            (ParsedOutput{"", "and {\"x\": 1}; y", Calls{{"0", "f", "{}"}}}));
  EXPECT_EQ(Llama(R"({"name": "f", "parameters": {}}; x)"),
            (ParsedOutput{"", "; x", Calls{{"0", "f", "{}"}}}));
  EXPECT_EQ(Llama(R"({"name": "f", "parameters": {}}<;)"),
            (ParsedOutput{"", "<;", Calls{{"0", "f", "{}"}}}));
}

TEST(LlamaCalls, CutShort) {
  EXPECT_EQ(Llama(R"({"name": "f", "parameters": {"a")"),
            (ParsedOutput{"", "", Calls{{"0", "f", R"({"a")"}}, false}));
  EXPECT_EQ(Llama(R"({"name": "f", "par)"), (ParsedOutput{"", R"({"name": "f", "par)", {}, false}));
  EXPECT_EQ(Llama("<|python_tag|>{"), (ParsedOutput{"", "<|python_tag|>{", {}, false}));
}

// --- All of them ---------------------------------------------------------------------------------

// Texts put together from pieces that mean something to some format.
TEST(OutputParser, NoTextDependsOnItsCuts) {
  const std::string_view parts[] = {"<think>",
                                    "</think>",
                                    "<tool_call>",
                                    "</tool_call>",
                                    "<|python_tag|>",
                                    kBegin,
                                    kEnd,
                                    "<｜tool▁call▁begin｜>",
                                    "<｜tool▁call▁end｜>",
                                    "<｜tool▁sep｜>",
                                    "\n",
                                    "\n\n",
                                    " ",
                                    "f",
                                    "<",
                                    "```json\n",
                                    "```",
                                    "{",
                                    "}",
                                    "{\"name\": \"f\", \"arguments\": ",
                                    "\"parameters\"",
                                    "\"",
                                    ",",
                                    ":",
                                    ";",
                                    "{\"a\": \"é\"}",
                                    "}}",
                                    "\\",
                                    "好",
                                    "[",
                                    "]",
                                    "function",
                                    "</",
                                    "1",
                                    "\xE5\xA5"};
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (size_t n = random() % 14; n > 0; --n) text += parts[random() % std::size(parts)];
    const auto options =
        Options(static_cast<ToolFormat>(random() % 4), static_cast<Start>(random() % 3));
    const ParsedOutput whole = ParseOutput(text, options);
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(ParsePieces(Cut(text, random), options), whole) << text;
    }
  }
}

TEST(OutputParser, LongHeldTextCostsLinearTime) {
  const std::string spaces(1 << 17, ' ');
  const std::string newlines(1 << 17, '\n');
  for (const ToolFormat format : {ToolFormat::kDeepSeek, ToolFormat::kHermes, ToolFormat::kLlama}) {
    for (const std::string& text :
         {spaces, newlines, std::string(kBegin) + spaces, V31("f", "{" + spaces + "```" + newlines),
          "<tool_call>" + spaces, "<tool_call>{\"name\": \"f\", \"arguments\": {" + newlines}) {
      OutputParser parser(Options(format, Start::kMaybe));
      ParsedOutput output;
      for (size_t i = 0; i < text.size(); i += 16) output.Add(parser.Push(text.substr(i, 16)));
      output.Add(parser.Finish());
      EXPECT_EQ(output.reasoning, "");
    }
  }
}

TEST(ToolCallId, DependsOnSeedAndIndex) {
  const std::string id = ToolCallId("request-1", 0);
  EXPECT_EQ(id.size(), 29u);
  EXPECT_TRUE(id.starts_with("call_"));
  EXPECT_EQ(id, ToolCallId("request-1", 0));
  EXPECT_NE(id, ToolCallId("request-1", 1));
  EXPECT_NE(id, ToolCallId("request-2", 0));
  OutputParserOptions options;
  options.tool_format = ToolFormat::kHermes;
  options.id_seed = "request-1";
  const std::string call = Tagged(R"({"name": "f"})");
  EXPECT_EQ(ParseOutput(call, options).tool_calls[0].id, id);
}

TEST(ToolFormat, Names) {
  EXPECT_EQ(ToolFormatOfName("hermes"), ToolFormat::kHermes);
  for (const std::string& name : ToolFormatNames()) ToolFormatOfName(name);
  try {
    ToolFormatOfName("other");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(error.message().find("none, deepseek_v3,"), std::string::npos) << error.message();
  }
}

// A vocabulary whose markers are special tokens: the decoder keeps those and no others.
TEST(MarkerTokens, ReachTheParser) {
  Vocabulary vocabulary;
  vocabulary.source = "test";
  std::string added;
  const std::string_view pieces[] = {"<think>", "</think>", "<|python_tag|>", "<|eot|>"};
  for (size_t i = 0; i < std::size(pieces); ++i) {
    added += std::string(i > 0 ? "," : "") + "{\"id\":" + std::to_string(i + 2) +
             ",\"content\":\"" + std::string(pieces[i]) +
             "\",\"special\":true,\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
             "\"normalized\":false}";
  }
  vocabulary.tokenizer_json =
      "{\"added_tokens\":[" + added +
      "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
      "\"use_regex\":false},\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
      "\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}";
  const Tokenizer tokenizer = Tokenizer::Create(vocabulary);
  const std::vector<int32_t> ids = {2, 0, 3, 4, 1, 5};

  OutputParserOptions options = Options(ToolFormat::kLlama, Start::kMaybe);
  const auto decode = [&] {
    IncrementalDecoder decoder(tokenizer, true, MarkerTokens(tokenizer, options));
    std::string text;
    for (const int32_t id : ids) text += decoder.Push(id);
    return text + decoder.Flush();
  };
  EXPECT_EQ(decode(), "<think>a</think><|python_tag|>b");
  options.reasoning = Start::kNone;
  EXPECT_EQ(decode(), "a<|python_tag|>b");
  options.tool_format = ToolFormat::kHermes;
  EXPECT_EQ(decode(), "ab");
}

// Users' text in the prompt cannot open a thought.
TEST(ReasoningStartOf, LooksAtTheTemplatesText) {
  const auto start = [](std::initializer_list<std::pair<std::string_view, bool>> parts) {
    MarkedText prompt;
    for (const auto& [text, data] : parts) prompt.Append(text, data);
    return ReasoningStartOf(prompt);
  };
  EXPECT_EQ(start({{"<A>", false}, {"hi", true}, {"<B><think>\n", false}}), Start::kOpen);
  EXPECT_EQ(start({{"<A>", false}, {"hi", true}, {"<B></think>", false}}), Start::kNone);
  EXPECT_EQ(start({{"<B><think>\n\n</think>\n\n", false}}), Start::kNone);
  EXPECT_EQ(start({{"Use <think>. <A>", false}, {"hi", true}, {"<B>\n", false}}), Start::kMaybe);
  EXPECT_EQ(start({{"<B>", false}, {"<think>", true}}), Start::kMaybe);
  EXPECT_EQ(start({{"<B><thi", false}, {"nk>", true}}), Start::kMaybe);
  // The beginning of a thought or an answer that is to be continued.
  EXPECT_EQ(start({{"<B><think>", false}, {"Well </think>", true}}), Start::kOpen);
  EXPECT_EQ(start({{"<B></think>", false}, {"Well", true}}), Start::kNone);
  EXPECT_EQ(start({}), Start::kMaybe);
}

// What MarkerScanner asks of markers.
TEST(ToolFormat, MarkersCanBeScanned) {
  for (int f = 0; f < 4; ++f) {
    for (const std::string_view marker : ToolFormatMarkers(static_cast<ToolFormat>(f))) {
      EXPECT_EQ(marker.rfind('<'), 0u) << marker;
      for (const std::string_view other : ToolFormatMarkers(static_cast<ToolFormat>(f))) {
        EXPECT_TRUE(marker == other || !marker.starts_with(other)) << marker;
      }
    }
  }
}

}  // namespace
}  // namespace hadal
