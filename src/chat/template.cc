#include "chat/template.h"

#include <utility>

#include "chat/interpreter.h"
#include "chat/parser.h"
#include "chat/value_json.h"

namespace hadal {
namespace {

void DefineJson(jinja::Runtime& runtime, jinja::Interpreter& interpreter, const std::string& name,
                const OrderedJson& json) {
  if (interpreter.Mentions(name)) {
    interpreter.Define(name, jinja::FromJson(runtime, json, name));
  }
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, const TemplateLimits& limits)
    : limits_(limits), program_(jinja::ParseTemplate(source, limits.depth)) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

MarkedText ChatTemplate::Render(const ChatInput& input) const {
  jinja::Runtime runtime(limits_, input.now);
  jinja::Interpreter interpreter(runtime, *program_);
  for (const auto& [name, token] : input.special_tokens) {
    if (interpreter.Mentions(name)) interpreter.Define(name, runtime.NewString(token, false));
  }
  for (const auto& [name, value] : input.extra.items()) {
    DefineJson(runtime, interpreter, name, value);
  }
  DefineJson(runtime, interpreter, "messages", input.messages);
  DefineJson(runtime, interpreter, "tools", input.tools);
  DefineJson(runtime, interpreter, "documents", input.documents);
  interpreter.Define("add_generation_prompt",
                     jinja::Value::Bool(input.add_generation_prompt, true));
  return interpreter.Run();
}

}  // namespace hadal
