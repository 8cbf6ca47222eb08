#include "chat/conversation.h"

#include "base/error.h"

namespace hadal {
namespace {

void CheckParts(const OrderedJson& parts, const std::string& source, size_t message) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const OrderedJson& part = parts[i];
    if (!part.is_object()) {
      Fail(ErrorKind::kInvalid, "{}: messages[{}].content[{}] is not an object", source, message,
           i);
    }
    const auto type = part.find("type");
    if (type == part.end() || !type->is_string()) {
      Fail(ErrorKind::kInvalid, "{}: messages[{}].content[{}].type is missing or not a string",
           source, message, i);
    }
  }
}

void CheckMessage(const OrderedJson& message, const std::string& source, size_t index) {
  if (!message.is_object()) {
    Fail(ErrorKind::kInvalid, "{}: messages[{}] is not an object", source, index);
  }
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) {
    Fail(ErrorKind::kInvalid, "{}: messages[{}].role is {}", source, index,
         role == message.end() ? "missing" : "not a string");
  }
  const auto content = message.find("content");
  if (content == message.end() || content->is_string() || content->is_null()) return;
  if (!content->is_array()) {
    Fail(ErrorKind::kInvalid, "{}: messages[{}].content is not a string, null or an array of parts",
         source, index);
  }
  CheckParts(*content, source, index);
}

// An array, or null when absent.
OrderedJson TakeArray(const OrderedJson& json, const char* name, const std::string& source) {
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) return nullptr;
  if (!found->is_array()) Fail(ErrorKind::kInvalid, "{}: {} is not an array", source, name);
  for (size_t i = 0; i < found->size(); ++i) {
    if (!(*found)[i].is_object()) {
      Fail(ErrorKind::kInvalid, "{}: {}[{}] is not an object", source, name, i);
    }
  }
  return *found;
}

}  // namespace

void CheckMessages(const OrderedJson& messages, const std::string& source) {
  if (!messages.is_array() || messages.empty()) {
    Fail(ErrorKind::kInvalid, "{}: messages is {}", source,
         messages.is_array() ? "empty" : "not an array");
  }
  for (size_t i = 0; i < messages.size(); ++i) CheckMessage(messages[i], source, i);
}

ChatInput ParseChatInput(std::string_view text, const std::string& source) {
  const OrderedJson json = ParseOrderedJson(text, source);
  if (!json.is_object()) Fail(ErrorKind::kInvalid, "{}: an object is expected", source);
  for (const auto& [name, value] : json.items()) {
    if (name != "messages" && name != "tools" && name != "documents" &&
        name != "add_generation_prompt" && name != "extra") {
      Fail(ErrorKind::kInvalid, "{}: {} is not known here; variables of the template go into extra",
           source, name);
    }
  }
  ChatInput input;
  const auto messages = json.find("messages");
  if (messages == json.end()) Fail(ErrorKind::kInvalid, "{}: messages is missing", source);
  CheckMessages(*messages, source);
  input.messages = *messages;
  input.tools = TakeArray(json, "tools", source);
  input.documents = TakeArray(json, "documents", source);
  if (const auto found = json.find("add_generation_prompt"); found != json.end()) {
    if (!found->is_boolean()) {
      Fail(ErrorKind::kInvalid, "{}: add_generation_prompt is not true or false", source);
    }
    input.add_generation_prompt = found->get<bool>();
  }
  if (const auto found = json.find("extra"); found != json.end() && !found->is_null()) {
    if (!found->is_object()) Fail(ErrorKind::kInvalid, "{}: extra is not an object", source);
    input.extra = *found;
  }
  return input;
}

}  // namespace hadal
