// Bodies of requests: what is accepted, what is refused, and which field is named.
#include <gtest/gtest.h>

#include "api/api_error.h"
#include "api/chat_request.h"
#include "api/completion_request.h"

namespace hadal::api {
namespace {

constexpr uint32_t kVocab = 100;

ParamContext Context() {
  ParamContext context;
  context.vocab = kVocab;
  return context;
}

OrderedJson Chat(const std::string& members = "") {
  return OrderedJson::parse(R"({"messages": [{"role": "user", "content": "hi"}])" +
                            (members.empty() ? "" : ", " + members) + "}");
}

ChatRequest Read(const OrderedJson& body, const ParamContext& context = Context()) {
  return ReadChatRequest(body, context, {});
}

// "param: code" of the refusal.
template <typename Function>
std::string RefusalOf(Function read) {
  try {
    read();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400);
    EXPECT_NE(error.message().find(error.param()), std::string::npos) << error.message();
    return error.param() + ": " + error.code();
  }
  return "accepted";
}
std::string ChatRefusal(const std::string& members) {
  return RefusalOf([&] { Read(Chat(members)); });
}
std::string MessagesRefusal(const std::string& messages) {
  return RefusalOf([&] { Read(OrderedJson::parse(R"({"messages": )" + messages + "}")); });
}
CompletionRequest Completion(const std::string& members) {
  return ReadCompletionRequest(OrderedJson::parse("{" + members + "}"), Context());
}
std::string CompletionRefusal(const std::string& members) {
  return RefusalOf([&] { Completion(members); });
}

TEST(ChatRequestTest, DefaultsAreTheModelsThenOurs) {
  EXPECT_EQ(Read(Chat()).params.sampling.temperature, 1.0f);
  ParamContext context = Context();
  context.defaults.temperature = 0.6f;
  context.defaults.top_k = 20;
  EXPECT_EQ(Read(Chat(), context).params.sampling.temperature, 0.6f);
  EXPECT_EQ(Read(Chat(), context).params.sampling.top_k, 20);
  EXPECT_EQ(Read(Chat(R"("temperature": 0.1, "top_k": -1)"), context).params.sampling.temperature,
            0.1f);
  EXPECT_EQ(Read(Chat(R"("top_k": -1)"), context).params.sampling.top_k, 0);
  context.defaults.do_sample = false;
  EXPECT_EQ(Read(Chat(), context).params.sampling.temperature, 0);
}

TEST(ChatRequestTest, NullIsAbsent) {
  const ChatRequest request =
      Read(Chat(R"("temperature": null, "stop": null, "tools": null, "max_tokens": null,
                   "stream_options": null, "seed": null, "n": null)"));
  EXPECT_EQ(request.params.n, 1u);
  EXPECT_FALSE(request.params.max_tokens);
  EXPECT_TRUE(request.unknown.empty());
}

TEST(ChatRequestTest, TheNewerLimitWinsWithAWarning) {
  const ChatRequest both = Read(Chat(R"("max_tokens": 5, "max_completion_tokens": 7)"));
  EXPECT_EQ(both.params.max_tokens, 7u);
  EXPECT_EQ(both.warnings.size(), 1u);
  EXPECT_TRUE(Read(Chat(R"("max_tokens": 7, "max_completion_tokens": 7)")).warnings.empty());
}

TEST(ChatRequestTest, WrongTypesNameTheField) {
  EXPECT_EQ(ChatRefusal(R"("temperature": "hot")"), "temperature: invalid_type");
  EXPECT_EQ(ChatRefusal(R"("temperature": -1)"), "temperature: invalid_value");
  EXPECT_EQ(ChatRefusal(R"("top_p": 0)"), "top_p: invalid_value");
  EXPECT_EQ(ChatRefusal(R"("n": 0)"), "n: invalid_value");
  EXPECT_EQ(ChatRefusal(R"("n": 129)"), "n: invalid_value");
  EXPECT_EQ(ChatRefusal(R"("n": 1.5)"), "n: invalid_type");
  EXPECT_EQ(ChatRefusal(R"("n": true)"), "n: invalid_type");
  EXPECT_EQ(ChatRefusal(R"("max_tokens": 1e300)"), "max_tokens: invalid_type");
  EXPECT_EQ(ChatRefusal(R"("max_tokens": 0)"), "max_tokens: invalid_value");
  EXPECT_EQ(ChatRefusal(R"("stop": 5)"), "stop: invalid_type");
  EXPECT_EQ(ChatRefusal(R"("stop": [5])"), "stop: invalid_type");
  EXPECT_EQ(ChatRefusal(R"("stop": "")"), "stop: invalid_value");
  EXPECT_EQ(ChatRefusal(R"("stream": 1)"), "stream: invalid_type");
  EXPECT_EQ(ChatRefusal(R"("stream_options": {})"), "stream_options: invalid_value");
  EXPECT_EQ(ChatRefusal(R"("logit_bias": {"5": 1, "100": 1})"), "logit_bias: invalid_value");
  EXPECT_EQ(ChatRefusal(R"("logit_bias": {"5x": 1})"), "logit_bias: invalid_value");
  EXPECT_EQ(ChatRefusal(R"("logit_bias": {"5": 101})"), "logit_bias: invalid_value");
  EXPECT_EQ(ChatRefusal(R"("stop_token_ids": [100])"), "stop_token_ids: invalid_value");
  EXPECT_EQ(ChatRefusal(R"("top_logprobs": 3)"), "top_logprobs: invalid_value");
  EXPECT_EQ(ChatRefusal(R"("logprobs": true, "top_logprobs": 21)"), "top_logprobs: invalid_value");
  EXPECT_EQ(ChatRefusal(R"("thinking": {"type": "maybe"})"), "thinking.type: invalid_value");
  EXPECT_EQ(ChatRefusal(R"("thinking": true)"), "thinking: invalid_type");
}

TEST(ChatRequestTest, MessagesAreCheckedByPlace) {
  EXPECT_EQ(MessagesRefusal("[]"), "messages: invalid_value");
  EXPECT_EQ(MessagesRefusal("null"), "messages: missing_required_parameter");
  EXPECT_EQ(MessagesRefusal(R"([{"role": "user", "content": "a"}, {"content": "b"}])"),
            "messages[1].role: invalid_value");
  EXPECT_EQ(MessagesRefusal(R"([{"role": "user", "content": 5}])"),
            "messages[0].content: invalid_value");
}

TEST(ChatRequestTest, WhatCannotBeHonouredIsRefused) {
  EXPECT_EQ(ChatRefusal(R"("response_format": {"type": "json_object"})"),
            "response_format.type: unsupported_value");
  EXPECT_EQ(ChatRefusal(R"("response_format": {"type": "text"})"), "accepted");
  EXPECT_EQ(ChatRefusal(R"("tool_choice": "required")"), "tool_choice: unsupported_value");
  EXPECT_EQ(ChatRefusal(R"("tool_choice": {"type": "function", "function": {"name": "f"}})"),
            "tool_choice: unsupported_value");
  for (const char* key : {"guided_json", "guided_regex", "grammar", "structured_outputs"}) {
    const std::string member = std::string("\"") + key + "\": \"x\"";
    EXPECT_EQ(ChatRefusal(member), std::string(key) + ": unsupported_value");
    EXPECT_EQ(CompletionRefusal("\"prompt\": \"a\", " + member),
              std::string(key) + ": unsupported_value");
  }
  EXPECT_EQ(ChatRefusal(R"("min_tokens": 5, "max_tokens": 4)"), "min_tokens: invalid_value");
  EXPECT_EQ(ChatRefusal(R"("modalities": ["text", "audio"])"), "modalities: unsupported_value");
  EXPECT_EQ(ChatRefusal(R"("modalities": ["text"])"), "accepted");
  EXPECT_EQ(ChatRefusal(R"("audio": {})"), "audio: unsupported_value");
}

TEST(ChatRequestTest, ToolsAreCheckedAndForbidden) {
  const std::string tool = R"({"type": "function", "function": {"name": "f"}})";
  EXPECT_EQ(Read(Chat(R"("tools": [)" + tool + "]")).tools.size(), 1u);
  EXPECT_TRUE(Read(Chat(R"("tool_choice": "none", "tools": [)" + tool + "]")).tools.is_null());
  EXPECT_TRUE(Read(Chat(R"("tools": [])")).tools.is_null());
  EXPECT_EQ(ChatRefusal(R"("tools": [{"type": "function"}])"),
            "tools[0].function: missing_required_parameter");
  EXPECT_EQ(ChatRefusal(R"("tools": [{"type": "retrieval"}])"), "tools[0].type: unsupported_value");
  EXPECT_EQ(ChatRefusal(R"("tools": [{"function": {"name": "a b"}}])"),
            "tools[0].function.name: invalid_value");
  const ChatRequest older = Read(Chat(R"("functions": [{"name": "f"}])"));
  EXPECT_EQ(older.tools[0]["function"]["name"], "f");
  EXPECT_EQ(older.warnings.size(), 1u);
}

TEST(ChatRequestTest, ThinkingFromTheStrongestSource) {
  EXPECT_FALSE(Read(Chat()).template_variables.contains("thinking"));
  EXPECT_EQ(Read(Chat(R"("thinking": {"type": "enabled"})")).template_variables["thinking"], true);
  EXPECT_EQ(Read(Chat(R"("model": "deepseek-chat")")).template_variables["enable_thinking"], false);
  EXPECT_EQ(Read(Chat(R"("reasoning_effort": "none")")).template_variables["thinking"], false);
  const ChatRequest mixed = Read(Chat(R"("model": "deepseek-chat", "thinking": {"type": "enabled"},
              "chat_template_kwargs": {"enable_thinking": false, "x": 1})"));
  EXPECT_EQ(mixed.template_variables["thinking"], false);
  EXPECT_EQ(mixed.template_variables["x"], 1);
  EXPECT_EQ(mixed.warnings.size(), 1u);
  EXPECT_TRUE(mixed.asks_to_think == false);
  EXPECT_EQ(Read(Chat(R"("model": "deepseek-v4-pro")")).template_variables["thinking"], true);
  EXPECT_FALSE(Read(Chat(R"("model": "deepseek-v4-pro")")).asks_to_think);
  EXPECT_TRUE(Read(Chat(R"("reasoning_effort": "high")")).asks_to_think);
  EXPECT_EQ(ChatRefusal(R"("reasoning_effort": "banana")"), "reasoning_effort: invalid_value");
}

TEST(ChatRequestTest, UnknownRolesAreRefusedAndOlderCallsTranslated) {
  EXPECT_EQ(MessagesRefusal(R"([{"role": "wizard", "content": "x"}])"),
            "messages[0].role: invalid_value");
  EXPECT_EQ(MessagesRefusal(R"([{"role": "USER", "content": "x"}])"),
            "messages[0].role: invalid_value");
  const ChatRequest older = Read(OrderedJson::parse(R"({"messages": [
      {"role": "user", "content": "x"},
      {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
      {"role": "function", "name": "f", "content": "1"}]})"));
  EXPECT_EQ(older.messages[1]["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(older.messages[2]["role"], "tool");
}

TEST(ChatRequestTest, UnknownMembersAreNamed) {
  const ChatRequest request = Read(Chat(R"("temprature": 0, "user": "u", "verbosity": "low")"));
  EXPECT_EQ(request.unknown, (std::vector<std::string>{"temprature", "verbosity"}));
}

TEST(ChatRequestTest, SeedsOfAllSizes) {
  EXPECT_EQ(Read(Chat(R"("seed": 18446744073709551615)")).params.sampling.seed, UINT64_MAX);
  EXPECT_EQ(Read(Chat(R"("seed": -1)")).params.sampling.seed, UINT64_MAX);
  EXPECT_EQ(ChatRefusal(R"("seed": 1.5)"), "seed: invalid_type");
}

TEST(ChatRequestTest, SaltsDoNotRunIntoEachOther) {
  EXPECT_NE(Read(Chat(R"("cache_salt": "a")")).params.cache_salt,
            Read(Chat(R"("user_id": "a")")).params.cache_salt);
  EXPECT_EQ(Read(Chat()).params.cache_salt, "");
}

TEST(ChatRequestTest, ContinuationsEndWithAnAssistant) {
  const auto body = [](const std::string& role) {
    return OrderedJson::parse(R"({"messages": [{"role": "user", "content": "a"}, {"role": ")" +
                              role + R"(", "content": "b", "prefix": true}]})");
  };
  const ChatRequest request = Read(body("assistant"));
  EXPECT_TRUE(request.continues);
  EXPECT_FALSE(request.add_generation_prompt);
  EXPECT_FALSE(request.messages.back().contains("prefix"));
  EXPECT_EQ(RefusalOf([&] { Read(body("user")); }), "messages: invalid_value");
}

TEST(CompletionRequestTest, PromptsOfAllForms) {
  EXPECT_EQ(Completion(R"("prompt": "a")").prompts.size(), 1u);
  EXPECT_EQ(Completion(R"("prompt": ["a", "b"])").prompts.size(), 2u);
  EXPECT_EQ(std::get<1>(Completion(R"("prompt": [1, 2])").prompts.at(0)),
            (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(Completion(R"("prompt": [[1], [2, 3]])").prompts.size(), 2u);
  EXPECT_EQ(Completion(R"("prompt": "a")").params.max_tokens, 16u);
  EXPECT_EQ(CompletionRefusal(""), "prompt: missing_required_parameter");
  EXPECT_EQ(CompletionRefusal(R"("prompt": [])"), "prompt: invalid_value");
  EXPECT_EQ(CompletionRefusal(R"("prompt": [1, "a"])"), "prompt: invalid_type");
  EXPECT_EQ(CompletionRefusal(R"("prompt": [[1], "a", 5])"), "prompt[2]: invalid_type");
  EXPECT_EQ(CompletionRefusal(R"("prompt": [100])"), "prompt: invalid_value");
}

TEST(CompletionRequestTest, EchoAndScoring) {
  EXPECT_EQ(CompletionRefusal(R"("prompt": "a", "max_tokens": 0)"), "max_tokens: invalid_value");
  const CompletionRequest scored =
      Completion(R"("prompt": "a", "max_tokens": 0, "echo": true, "logprobs": 0)");
  EXPECT_EQ(scored.params.sampling.logprobs, 0);
  EXPECT_EQ(Completion(R"("prompt": "a")").params.sampling.logprobs, -1);
  EXPECT_EQ(CompletionRefusal(R"("prompt": "a", "best_of": 2)"), "best_of: unsupported_value");
  EXPECT_EQ(CompletionRefusal(R"("prompt": "a", "best_of": 2, "n": 2)"), "accepted");
}

TEST(RequestBodyTest, MustBeAnObject) {
  EXPECT_THROW(Read(OrderedJson::parse("[]")), ApiError);
  EXPECT_THROW(ReadCompletionRequest(OrderedJson::parse("\"x\""), Context()), ApiError);
}

}  // namespace
}  // namespace hadal::api
