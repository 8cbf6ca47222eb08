#include "chat/history.h"

#include <fmt/core.h>

#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "chat/conversation.h"
#include "chat/marker_scanner.h"
#include "chat/reasoning.h"

namespace hadal {
namespace {

// As json.dumps writes it, which is what models saw.
std::string PythonJson(const OrderedJson& value) {
  static const ChatTemplate program("{{ value | tojson }}");
  ChatInput input;
  input.extra["value"] = value;
  return program.Render(input).text;
}

std::string JoinParts(const OrderedJson& parts, const std::string& place) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto type = parts[i].at("type").get<std::string>();
    if (type != "text" && type != "refusal") {
      Fail(ErrorKind::kInvalid, "{}[{}] has type '{}': this model reads text only", place, i, type);
    }
    const auto found = parts[i].find(type);
    if (found == parts[i].end() || !found->is_string()) {
      Fail(ErrorKind::kInvalid, "{}[{}].{} is missing or not a string", place, i, type);
    }
    if (i > 0) text += '\n';
    text += found->get_ref<const std::string&>();
  }
  return text;
}

void SplitThought(OrderedJson& message) {
  const std::string content = message["content"].get<std::string>();
  size_t begin = 0;
  while (begin < content.size() && IsJsonSpace(content[begin])) ++begin;
  if (!std::string_view(content).substr(begin).starts_with(kThinkBegin)) return;
  begin += kThinkBegin.size();
  size_t end = content.find(kThinkEnd, begin);
  if (end == std::string::npos) return;
  size_t rest = end + kThinkEnd.size();
  while (rest < content.size() && content[rest] == '\n') ++rest;
  while (begin < end && content[begin] == '\n') ++begin;
  while (begin < end && content[end - 1] == '\n') --end;
  message["reasoning_content"] = content.substr(begin, end - begin);
  message["content"] = content.substr(rest);
}

void PrepareReasoning(OrderedJson& message, const std::string& place) {
  for (const char* name : {"reasoning", "reasoning_content"}) {
    const auto found = message.find(name);
    if (found != message.end() && !found->is_string()) {
      Fail(ErrorKind::kInvalid, "{}.{} is not a string", place, name);
    }
  }
  if (const auto found = message.find("reasoning"); found != message.end()) {
    if (!message.contains("reasoning_content")) message["reasoning_content"] = *found;
    message.erase("reasoning");
  }
  if (!message.contains("reasoning_content")) SplitThought(message);
}

OrderedJson PrepareArguments(const OrderedJson* given, bool as_object, const std::string& place) {
  OrderedJson value = given == nullptr ? OrderedJson::object() : *given;
  if (!value.is_object() && !value.is_string()) {
    Fail(ErrorKind::kInvalid, "{}.arguments is neither a string nor an object", place);
  }
  if (value == "") value = OrderedJson::object();
  if (!as_object) return value.is_string() ? value : OrderedJson(PythonJson(value));
  if (value.is_object()) return value;
  try {
    OrderedJson parsed = ParseOrderedJson(value.get_ref<const std::string&>(), place);
    return parsed.is_object() ? parsed : value;
  } catch (const Error&) {
    return value;  // what the model wrote; the conversation goes on
  }
}

void PrepareCall(OrderedJson& call, const HistoryStyle& style, const std::string& place) {
  if (!call.is_object()) Fail(ErrorKind::kInvalid, "{} is not an object", place);
  if (!call.contains("type")) call["type"] = "function";
  const auto function = call.find("function");
  if (function == call.end() || !function->is_object()) {
    Fail(ErrorKind::kInvalid, "{}.function is missing or not an object", place);
  }
  const auto name = function->find("name");
  if (name == function->end() || !name->is_string()) {
    Fail(ErrorKind::kInvalid, "{}.function.name is missing or not a string", place);
  }
  const auto given = function->find("arguments");
  (*function)["arguments"] =
      PrepareArguments(given == function->end() || given->is_null() ? nullptr : &*given,
                       style.argument_objects, place + ".function");
}

// The older `function_call` and role "function" are a call and its result.
void TranslateFunctions(OrderedJson& message) {
  const auto call = message.find("function_call");
  if (call != message.end() && call->is_object() && !message.contains("tool_calls")) {
    message["tool_calls"] =
        OrderedJson::array({{{"id", "call_0"}, {"type", "function"}, {"function", *call}}});
  }
  message.erase("function_call");
  if (message["role"] != "function") return;
  message["role"] = "tool";
  message["tool_call_id"] = "call_0";
}

OrderedJson PrepareMessage(const OrderedJson& message, const HistoryStyle& style,
                           const std::string& place) {
  OrderedJson result = OrderedJson::object();
  for (const auto& [name, value] : message.items()) {
    if (!value.is_null()) result[name] = value;
  }
  if (result["role"] == "developer") result["role"] = "system";
  TranslateFunctions(result);
  OrderedJson& content = result["content"];
  if (content.is_null()) content = "";
  if (content.is_array()) content = JoinParts(content, place + ".content");
  if (result["role"] != "assistant") return result;

  PrepareReasoning(result, place);
  const auto calls = result.find("tool_calls");
  if (calls == result.end()) return result;
  if (!calls->is_array()) Fail(ErrorKind::kInvalid, "{}.tool_calls is not an array", place);
  if (calls->empty()) {
    result.erase("tool_calls");
    return result;
  }
  for (size_t i = 0; i < calls->size(); ++i) {
    PrepareCall((*calls)[i], style, fmt::format("{}.tool_calls[{}]", place, i));
  }
  return result;
}

// Some templates fail without tools.
OrderedJson ProbeTools() {
  return OrderedJson::parse(R"([{"type": "function", "function": {
      "name": "other", "description": "d", "parameters": {
        "type": "object", "properties": {"x": {"type": "string", "description": "d"}}}}}])");
}

// What the probe's assistant message looks like when rendered; nothing when the template fails.
std::optional<std::string> Probe(const ChatTemplate& program,
                                 const std::map<std::string, std::string>& special_tokens,
                                 const OrderedJson& content, const OrderedJson& arguments) {
  const OrderedJson function = {{"name", "probe_name"}, {"arguments", arguments}};
  const OrderedJson call = {{"id", "call00001"}, {"type", "function"}, {"function", function}};
  const OrderedJson assistant = {
      {"role", "assistant"}, {"content", content}, {"tool_calls", OrderedJson::array({call})}};
  ChatInput input;
  input.messages = {OrderedJson{{"role", "user"}, {"content", "probe"}}, assistant};
  input.tools = ProbeTools();
  input.special_tokens = special_tokens;
  try {
    return program.Render(input).text;
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool Has(const std::optional<std::string>& text, std::string_view part) {
  return text && text->find(part) != std::string::npos;
}

}  // namespace

HistoryStyle ProbeHistoryStyle(const ChatTemplate& program,
                               const std::map<std::string, std::string>& special_tokens) {
  const OrderedJson object = {{"probe_key", "v"}};
  const OrderedJson text = R"({"probe_key": "v"})";
  const auto probe = [&](const OrderedJson& content, const OrderedJson& arguments) {
    return Probe(program, special_tokens, content, arguments);
  };
  HistoryStyle style;
  for (const bool null_content : {false, true}) {
    const OrderedJson content = null_content ? OrderedJson(nullptr) : OrderedJson("");
    const bool takes_text = Has(probe(content, text), R"({"probe_key": "v"})");
    const auto with_object = probe(content, object);
    if (!takes_text && !(Has(with_object, "probe_name") && Has(with_object, "probe_key"))) continue;
    style.null_content = null_content;
    style.argument_objects = !takes_text;
    style.split_text_and_calls =
        !Has(probe("probe text", takes_text ? text : object), "probe_name");
    return style;
  }
  return style;
}

OrderedJson PrepareMessages(const OrderedJson& messages, const HistoryStyle& style,
                            const std::string& source) {
  CheckMessages(messages, source);
  OrderedJson result = OrderedJson::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    OrderedJson message =
        PrepareMessage(messages[i], style, fmt::format("{}: messages[{}]", source, i));
    if (message.contains("tool_calls")) {
      if (message["content"] != "" && style.split_text_and_calls) {
        OrderedJson text = message;
        text.erase("tool_calls");
        result.push_back(std::move(text));
        message.erase("reasoning_content");
        message["content"] = "";
      }
      if (message["content"] == "" && style.null_content) message["content"] = nullptr;
    }
    result.push_back(std::move(message));
  }
  return result;
}

}  // namespace hadal
