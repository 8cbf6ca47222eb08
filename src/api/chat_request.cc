#include "api/chat_request.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "api/api_error.h"
#include "api/model_names.h"

namespace hadal::api {
namespace {

constexpr size_t kMaxTools = 128;
constexpr int kMaxTopLogprobs = 20;

void CheckTool(const OrderedJson& tool, size_t index) {
  const std::string where = fmt::format("tools[{}]", index);
  Fields fields(tool, where + ".");
  if (const auto type = fields.String("type"); type.value_or("function") != "function") {
    fields.Refuse("type", fmt::format("is '{}'; only function tools are supported", *type),
                  "unsupported_value");
  }
  const OrderedJson* function = fields.Find("function");
  if (function == nullptr) {
    fields.Refuse("function", "is missing", "missing_required_parameter");
  }
  Fields inner(*function, where + ".function.");
  const auto name = inner.String("name");
  if (!name) inner.Refuse("name", "is missing", "missing_required_parameter");
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  if (name->empty() || name->size() > 128 ||
      name->find_first_not_of(kAllowed) != std::string::npos) {
    inner.Refuse("name", "must be 1 to 128 letters, digits, '_', '-' or '.'");
  }
  inner.String("description");
  if (const OrderedJson* parameters = inner.Find("parameters");
      parameters != nullptr && !parameters->is_object()) {
    inner.Refuse("parameters", "must be a JSON schema object", "invalid_type");
  }
}

// The older `functions` are tools without their wrapper.
OrderedJson ReadTools(Fields& fields, std::vector<std::string>& warnings) {
  OrderedJson tools = nullptr;
  if (const OrderedJson* given = fields.Find("tools")) tools = *given;
  if (const OrderedJson* functions = fields.Find("functions")) {
    if (!functions->is_array()) fields.Refuse("functions", "must be a list", "invalid_type");
    warnings.push_back("functions is deprecated: it is read as tools");
    for (const OrderedJson& function : *functions) {
      tools.push_back({{"type", "function"}, {"function", function}});
    }
  }
  if (tools.is_null()) return tools;
  if (!tools.is_array()) fields.Refuse("tools", "must be a list", "invalid_type");
  if (tools.size() > kMaxTools) {
    fields.Refuse("tools",
                  fmt::format("has {} entries; at most {} are allowed", tools.size(), kMaxTools));
  }
  for (size_t i = 0; i < tools.size(); ++i) CheckTool(tools[i], i);
  if (tools.empty()) return nullptr;
  return tools;
}

void ReadToolChoice(Fields& fields, ChatRequest& request) {
  for (const char* key : {"tool_choice", "function_call"}) {
    const OrderedJson* choice = fields.Find(key);
    if (choice == nullptr) continue;
    if (*choice == "none") {
      request.tools = nullptr;
    } else if (*choice != "auto") {
      fields.Refuse(key,
                    "can be \"auto\" or \"none\": forcing a call needs constrained decoding, which "
                    "this server does not have yet",
                    "unsupported_value");
    }
  }
  request.parallel_tool_calls = fields.Bool("parallel_tool_calls").value_or(true);
}

void RefuseUnsupported(Fields& fields) {
  if (const OrderedJson* modalities = fields.Find("modalities");
      modalities != nullptr && *modalities != OrderedJson{"text"}) {
    fields.Refuse("modalities", "can only be [\"text\"]", "unsupported_value");
  }
  for (const char* key : {"audio", "web_search_options"}) {
    if (fields.Has(key)) fields.Refuse(key, "is not supported", "unsupported_value");
  }
}

void ReadLogprobs(Fields& fields, SamplingParams& sampling) {
  const bool wanted = fields.Bool("logprobs").value_or(false);
  const auto top = fields.Integer("top_logprobs", 0, kMaxTopLogprobs);
  if (top && *top > 0 && !wanted) {
    fields.Refuse("top_logprobs", "needs \"logprobs\": true");
  }
  if (wanted) sampling.logprobs = static_cast<int32_t>(top.value_or(0));
}

// Later sources only fill what earlier ones left open.
class Thinking {
 public:
  Thinking(OrderedJson& variables, std::vector<std::string>& warnings)
      : variables_(variables), warnings_(warnings) {
    for (const char* key : {"thinking", "enable_thinking"}) {
      const auto found = variables.find(key);
      if (found != variables.end() && found->is_boolean()) Say(found->get<bool>(), key);
    }
  }
  void Say(std::optional<bool> enabled, std::string_view source) {
    if (!enabled) return;
    if (!enabled_) {
      enabled_ = enabled;
      source_ = source;
    } else if (*enabled_ != *enabled) {
      warnings_.push_back(fmt::format("{} and {} contradict each other about thinking: {} is used",
                                      source_, source, source_));
    }
  }
  bool enabled() const { return enabled_.value_or(false); }
  // Templates call it by two names.
  void Apply() {
    if (!enabled_) return;
    variables_["thinking"] = *enabled_;
    variables_["enable_thinking"] = *enabled_;
  }

 private:
  OrderedJson& variables_;
  std::vector<std::string>& warnings_;
  std::optional<bool> enabled_;
  std::string source_;
};

void ReadThinking(Fields& fields, ChatRequest& request) {
  if (const OrderedJson* variables = fields.Find("chat_template_kwargs")) {
    const Fields checked(*variables, "chat_template_kwargs.");
    request.template_variables = *variables;
  }
  Thinking thinking(request.template_variables, request.warnings);
  if (const OrderedJson* given = fields.Find("thinking")) {
    Fields inner(*given, "thinking.");
    const std::string type = inner.String("type").value_or("");
    if (type != "enabled" && type != "disabled") {
      inner.Refuse("type", "must be \"enabled\" or \"disabled\"");
    }
    thinking.Say(type == "enabled", "thinking");
  }
  if (const auto effort = fields.String("reasoning_effort")) {
    constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium",
                                             "high", "xhigh",   "max", "ultra"};
    if (std::find(std::begin(kEfforts), std::end(kEfforts), *effort) == std::end(kEfforts)) {
      fields.Refuse("reasoning_effort",
                    "must be none, minimal, low, medium, high, xhigh, max or ultra");
    }
    thinking.Say(*effort != "none", "reasoning_effort");
    if (!request.template_variables.contains("reasoning_effort")) {
      request.template_variables["reasoning_effort"] = *effort;
    }
  }
  request.asks_to_think = thinking.enabled();
  thinking.Say(ModelNames::Thinking(request.model), "model");
  thinking.Apply();
}

void CheckRole(const OrderedJson& message, size_t index) {
  constexpr std::string_view kRoles[] = {"system", "developer", "user",    "assistant",
                                         "tool",   "function",  "ipython", "latest_reminder"};
  const auto& role = message["role"].get_ref<const std::string&>();
  if (std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles)) return;
  const std::string where = fmt::format("messages[{}].role", index);
  throw ApiError(
      400,
      fmt::format("{} is '{}'; it must be system, developer, user, assistant or tool", where, role),
      where, "invalid_value");
}

// Messages as the template takes them; an error names the place in `param`.
OrderedJson CheckedMessages(const OrderedJson& messages, const HistoryStyle& style) {
  constexpr std::string_view kSource = "request";
  OrderedJson prepared;
  try {
    prepared = PrepareMessages(messages, style, std::string(kSource));
  } catch (const Error& error) {
    const std::string what = error.message().substr(kSource.size() + 2);
    throw ApiError(400, what, what.substr(0, what.find(' ')), "invalid_value");
  }
  for (size_t i = 0; i < messages.size(); ++i) CheckRole(messages[i], i);
  return prepared;
}

void ReadMessages(Fields& fields, const HistoryStyle& style, ChatRequest& request) {
  const OrderedJson* messages = fields.Find("messages");
  if (messages == nullptr) fields.Refuse("messages", "is missing", "missing_required_parameter");
  request.messages = CheckedMessages(*messages, style);
  request.continues = fields.Bool("continue_final_message").value_or(false);
  OrderedJson& last = request.messages.back();
  if (const auto prefix = last.find("prefix"); prefix != last.end()) {
    if (!prefix->is_boolean()) {
      fields.Refuse("messages", "ends with a message whose prefix is not true or false");
    }
    request.continues = request.continues || prefix->get<bool>();
    last.erase("prefix");
  }
  if (request.continues && last["role"] != "assistant") {
    fields.Refuse("messages", "must end with an assistant's message to continue it");
  }
}

// Hints that change nothing here and are no reason for a remark.
void AcceptHints(Fields& fields, std::vector<std::string>& warnings) {
  for (const char* key : {"user", "safety_identifier", "prompt_cache_key", "service_tier",
                          "prompt_cache_retention", "metadata"}) {
    fields.Find(key);
  }
  if (fields.Bool("store").value_or(false)) {
    warnings.push_back("store is ignored: this server keeps no conversations");
  }
}

}  // namespace

ChatRequest ReadChatRequest(const OrderedJson& body, const ParamContext& context,
                            const HistoryStyle& style) {
  Fields fields(body, "");
  ChatRequest request;
  request.model = fields.String("model").value_or("");
  ReadMessages(fields, style, request);
  request.tools = ReadTools(fields, request.warnings);
  ReadToolChoice(fields, request);
  RefuseUnsupported(fields);
  ReadThinking(fields, request);
  request.params = ReadGenerationParams(fields, context, request.warnings);
  ReadLogprobs(fields, request.params.sampling);
  if (request.params.max_tokens == 0) fields.Refuse("max_tokens", "must be at least 1");
  request.add_generation_prompt =
      fields.Bool("add_generation_prompt").value_or(true) && !request.continues;
  AcceptHints(fields, request.warnings);
  request.unknown = fields.Unread();
  return request;
}

}  // namespace hadal::api
