#include "insight/load_stream.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

namespace hadal::load {
namespace {

constexpr size_t kLongestEvent = 16 << 20;  // a server that never ends a line is not followed

// Null when `object` is no object or has no such member.
const Json& Member(const Json& object, const char* key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

uint32_t Count(const Json& object, const char* key) {
  const Json& value = Member(object, key);
  return value.is_number_unsigned() ? value.get<uint32_t>() : 0;
}

bool HasText(const Json& value) {
  return (value.is_string() && !value.get_ref<const std::string&>().empty()) ||
         (value.is_array() && !value.empty());
}

// Whether a choice brings anything the model wrote.
bool BringsText(const Json& choice) {
  if (HasText(Member(choice, "text"))) return true;
  const Json& delta = Member(choice, "delta");
  for (const char* key : {"content", "reasoning_content", "reasoning", "tool_calls"}) {
    if (HasText(Member(delta, key))) return true;
  }
  return false;
}

std::string Beginning(std::string_view text) {
  return ReplaceInvalidUtf8(text.substr(0, std::min<size_t>(text.size(), 200)));
}

}  // namespace

void StreamReader::Feed(std::string_view bytes, double now) {
  while (!bytes.empty() && problem_.empty()) {
    const size_t end = bytes.find('\n');
    if (rest_.size() + data_.size() + bytes.size() > kLongestEvent) {
      problem_ = "an event without end";
      return;
    }
    rest_ += bytes.substr(0, end);
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    if (!rest_.empty() && rest_.back() == '\r') rest_.pop_back();
    Line(rest_, now);
    rest_.clear();
  }
}

void StreamReader::Line(std::string_view line, double now) {
  if (line.empty()) {
    if (has_data_) Event(now);
    data_.clear();
    has_data_ = false;
  } else if (line.substr(0, 5) == "data:") {
    line.remove_prefix(5);
    if (!line.empty() && line.front() == ' ') line.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += line;
    has_data_ = true;
  } else if (line.substr(0, 5) == "error") {  // llama.cpp once sent "error: {...}"
    problem_ = Beginning(line);
  }
}

void StreamReader::Event(double now) {
  last_event_ = now;
  if (data_ == "[DONE]") {
    done_ = true;
    return;
  }
  if (done_) {
    problem_ = "an event after [DONE]";
    return;
  }
  Json event;
  try {
    event = ParseJson(data_, "an event");
  } catch (const Error& error) {
    problem_ = Beginning(error.message());
    return;
  }
  if (!Member(event, "error").is_null()) {
    problem_ = ErrorMessageOf(data_);
    return;
  }
  const Json& usage = Member(event, "usage");
  if (usage.is_object()) {
    has_usage_ = true;
    prompt_tokens_ = Count(usage, "prompt_tokens");
    output_tokens_ = Count(usage, "completion_tokens");
    const Json& cached = Member(Member(usage, "prompt_tokens_details"), "cached_tokens");
    has_cached_ |= cached.is_number_unsigned();
    cached_tokens_ = Count(Member(usage, "prompt_tokens_details"), "cached_tokens");
  }
  const Json& choices = Member(event, "choices");
  if (!choices.is_array() || choices.empty()) return;
  for (const Json& choice : choices) {
    if (BringsText(choice)) {
      chunks_.push_back({now, usage.is_object() ? output_tokens_ : 0});
    }
    if (Member(choice, "finish_reason").is_string()) finished_ = true;
  }
}

std::string ErrorMessageOf(std::string_view body) {
  const Json json = Json::parse(body, nullptr, false);
  for (const Json* object : {&Member(json, "error"), &json}) {
    const Json& message = Member(*object, "message");
    if (message.is_string()) return Beginning(message.get_ref<const std::string&>());
  }
  return Beginning(body);
}

}  // namespace hadal::load
