#include "chat/json_call_reader.h"

#include "base/json.h"
#include "chat/marker_scanner.h"

namespace hadal {

bool JsonSpan::Push(char c) {
  if (in_string_) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
      return depth_ == 0;
    }
    return false;
  }
  if (c == '"') in_string_ = true;
  if (c == '{' || c == '[') ++depth_;
  return (c == '}' || c == ']') && --depth_ <= 0;
}

std::optional<std::string> DecodeJsonString(std::string_view literal) {
  const Json json = Json::parse(literal, nullptr, false);
  if (!json.is_string()) return std::nullopt;
  return json.get<std::string>();
}

void JsonCallReader::Commit(std::string_view arguments, OutputSink& sink) {
  committed_ = true;
  sink.BeginCall(*name_);
  sink.Arguments(arguments);
}

bool JsonCallReader::EndKey() {
  if (text_ == "\"name\"") {
    key_ = Key::kName;
    return !name_;
  }
  if (text_ == "\"arguments\"" || text_ == "\"parameters\"") {
    key_ = Key::kArguments;
    return !arguments_;
  }
  key_ = Key::kIgnored;
  return text_ == "\"type\"" || text_ == "\"id\"";
}

bool JsonCallReader::BeginValue(char c, OutputSink& sink) {
  span_ = JsonSpan();
  text_ = c;
  span_.Push(c);
  state_ = State::kInValue;
  switch (key_) {
    case Key::kName:
      return c == '"';
    case Key::kArguments:
      if (c == '{' && name_) {
        Commit("{", sink);
        state_ = State::kArguments;
      }
      return c == '{' || c == '"';
    case Key::kIgnored:
      if (c != '"' && c != '{' && c != '[') state_ = State::kScalar;
      return c != ',' && c != '}' && c != ']';
  }
  return false;
}

bool JsonCallReader::EndValue(OutputSink& sink) {
  state_ = State::kAfter;
  if (key_ == Key::kName) {
    name_ = DecodeJsonString(text_);
    if (!name_ || name_->empty()) return false;
    if (!arguments_) return true;
  } else if (key_ == Key::kArguments) {
    arguments_ = text_.front() == '"' ? DecodeJsonString(text_) : text_;
    if (!arguments_) return false;
    if (!name_) return true;
  } else {
    return true;
  }
  Commit(*arguments_, sink);
  state_ = State::kRest;
  return true;
}

JsonCallReader::Status JsonCallReader::PushRest(char c) {
  if (IsJsonSpace(c)) return Status::kMore;
  if (c == '}') return Status::kDone;
  if (c != ',') return Status::kEndedBefore;
  state_ = State::kMembers;
  span_ = JsonSpan(1);
  return Status::kMore;
}

JsonCallReader::Status JsonCallReader::PushAfter(char c, OutputSink& sink) {
  if (c == ',') {
    state_ = State::kKey;
    return Status::kMore;
  }
  if (c != '}' || !name_ || arguments_required_) return Status::kBad;
  Commit("{}", sink);
  return Status::kDone;
}

JsonCallReader::Status JsonCallReader::Push(char c, OutputSink& sink) {
  const auto more_if = [](bool good) { return good ? Status::kMore : Status::kBad; };
  switch (state_) {
    case State::kOpen:
      if (IsJsonSpace(c)) return Status::kMore;
      state_ = State::kKey;
      return more_if(c == '{');
    case State::kKey:
      if (IsJsonSpace(c)) return Status::kMore;
      text_ = c;
      span_ = JsonSpan();
      span_.Push(c);
      state_ = State::kInKey;
      return more_if(c == '"');
    case State::kInKey:
      text_ += c;
      if (!span_.Push(c)) return more_if(text_.size() <= sizeof("\"parameters\""));
      state_ = State::kColon;
      return more_if(EndKey());
    case State::kColon:
      if (IsJsonSpace(c)) return Status::kMore;
      state_ = State::kValue;
      return more_if(c == ':');
    case State::kValue:
      return IsJsonSpace(c) ? Status::kMore : more_if(BeginValue(c, sink));
    case State::kInValue:
      text_ += c;
      return span_.Push(c) ? more_if(EndValue(sink)) : Status::kMore;
    case State::kScalar:
      if (c != ',' && c != '}' && !IsJsonSpace(c)) return Status::kMore;
      state_ = State::kAfter;
      return IsJsonSpace(c) ? Status::kMore : PushAfter(c, sink);
    case State::kAfter:
      return IsJsonSpace(c) ? Status::kMore : PushAfter(c, sink);
    case State::kArguments:
      sink.Arguments(std::string_view(&c, 1));
      if (span_.Push(c)) state_ = State::kRest;
      return Status::kMore;
    case State::kRest:
      return PushRest(c);
    case State::kMembers:
      return span_.Push(c) ? Status::kDone : Status::kMore;
  }
  return Status::kBad;
}

}  // namespace hadal
