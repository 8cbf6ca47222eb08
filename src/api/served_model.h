// The one model that is served, as all handlers see it. Made once, then only read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/generation_params.h"
#include "api/model_names.h"
#include "chat/history.h"
#include "chat/template.h"
#include "chat/tool_call_format.h"
#include "engine/engine.h"
#include "spec/model_spec.h"
#include "tokenizer/tokenizer.h"

namespace hadal::api {

// The tokens around the text before and after a hole, for fill-in-the-middle; -1: the model has
// none.
struct FimTokens {
  int32_t prefix = -1, suffix = -1, middle = -1;
  bool known() const { return prefix >= 0; }
};

struct ServedModel {
  Engine* engine = nullptr;  // outlives this
  const Tokenizer* tokenizer = nullptr;
  ModelNames names;
  std::optional<ChatTemplate> chat_template;  // absent: no chat route
  std::map<std::string, std::string> special_tokens;
  bool template_has_tools = false, template_has_thinking = false;
  size_t longest_token = 1;  // bytes
  HistoryStyle history;
  ToolFormat tool_format = ToolFormat::kNone;
  ParamContext params;
  std::vector<int32_t> eos_ids;
  FimTokens fim;
  int64_t created = 0;             // seconds since the epoch
  std::string system_fingerprint;  // names model, weights and engine: same value, same answers
};

}  // namespace hadal::api
