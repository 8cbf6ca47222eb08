#include "api/prompt_builder.h"

#include <fmt/core.h>

#include <array>

#include "api/api_error.h"
#include "chat/output_parser.h"

namespace hadal::api {
namespace {

// OpenAI's schema asks for neither, many templates for both.
OrderedJson WithDefaults(const OrderedJson& tools) {
  OrderedJson complete = tools;
  for (OrderedJson& tool : complete) {
    OrderedJson& function = tool["function"];
    if (!function.contains("description")) function["description"] = "";
    if (!function.contains("parameters")) {
      function["parameters"] = {{"type", "object"}, {"properties", OrderedJson::object()}};
    }
  }
  return complete;
}

MarkedText Render(const ChatRequest& request, const OrderedJson& messages, bool generation_prompt,
                  const ServedModel& model, std::time_t now) {
  if (!model.chat_template) {
    throw ApiError(400,
                   "this model has no chat template: use /v1/completions, or start the server with "
                   "--chat-template FILE",
                   "messages", "no_chat_template");
  }
  ChatInput input;
  input.messages = messages;
  input.tools = request.tools;
  input.add_generation_prompt = generation_prompt;
  input.extra = request.template_variables;
  input.special_tokens = model.special_tokens;
  input.now = now;
  std::string problem;
  try {
    return model.chat_template->Render(input);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalid) throw;
    problem = error.message();
  }
  if (!input.tools.is_null()) {
    input.tools = WithDefaults(input.tools);
    try {
      return model.chat_template->Render(input);
    } catch (const Error&) {
      // The first message is about what the client has sent.
    }
  }
  throw ApiError(400, problem, "messages", "invalid_conversation");
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

std::string TextOf(const OrderedJson& message, const char* key) {
  const auto found = message.find(key);
  return found != message.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// The template writes the message and what ends it; the text is cut after the message. Templates
// may trim it.
MarkedText CutAfter(const MarkedText& rendered, const std::string& content) {
  size_t end = std::string::npos;
  for (const std::string_view wanted : {std::string_view(content), Trimmed(content)}) {
    const size_t begin = rendered.text.rfind(wanted);
    if (begin != std::string::npos && rendered.IsData(begin)) {
      end = begin + wanted.size();
      break;
    }
  }
  if (end == std::string::npos) {
    throw ApiError(400, "the chat template changes the last message, so it cannot be continued",
                   "messages", "cannot_continue");
  }
  MarkedText cut;
  cut.Append(rendered, 0, end);
  return cut;
}

// Everything up to where the last message begins.
MarkedText RenderWithoutLast(const ChatRequest& request, const ServedModel& model,
                             std::time_t now) {
  OrderedJson before = request.messages;
  before.erase(before.size() - 1);
  return Render(request, before, true, model, now);
}

// A thought to be continued is put where the model would write it; with content after it the
// thought is closed.
MarkedText ContinueThought(const ChatRequest& request, const std::string& thought,
                           const std::string& content, const ServedModel& model, std::time_t now) {
  MarkedText text = RenderWithoutLast(request, model, now);
  if (!ReasoningOpenAtEnd(text)) text.Append("<think>\n", false);
  text.Append(thought, true);
  if (!content.empty()) {
    text.Append("\n</think>\n\n", false);
    text.Append(content, true);
  }
  return text;
}

struct FimNames {
  std::string_view prefix, suffix, middle;
};
// DeepSeek calls the place to fill the hole: it stands between the two texts, and the model
// answers after the last token.
constexpr std::array<FimNames, 3> kFimNames = {{
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
}};

std::vector<int32_t> FillInTheMiddle(const std::vector<int32_t>& before,
                                     const std::vector<int32_t>& after, const ServedModel& model,
                                     bool add_special) {
  const Tokenizer& tokenizer = *model.tokenizer;
  std::vector<int32_t> tokens;
  if (add_special && tokenizer.adds_bos()) tokens.push_back(tokenizer.bos_id());
  tokens.push_back(model.fim.prefix);
  tokens.insert(tokens.end(), before.begin(), before.end());
  tokens.push_back(model.fim.suffix);
  tokens.insert(tokens.end(), after.begin(), after.end());
  tokens.push_back(model.fim.middle);
  return tokens;
}

}  // namespace

MarkedText RenderChat(const ChatRequest& request, const ServedModel& model, std::time_t now) {
  if (!request.continues) {
    return Render(request, request.messages, request.add_generation_prompt, model, now);
  }
  const OrderedJson& last = request.messages.back();
  const std::string content = TextOf(last, "content");
  const std::string thought = TextOf(last, "reasoning_content");
  if (!thought.empty()) return ContinueThought(request, thought, content, model, now);
  if (Trimmed(content).empty()) return RenderWithoutLast(request, model, now);
  return CutAfter(Render(request, request.messages, false, model, now), content);
}

std::vector<int32_t> BuildCompletionPrompt(const CompletionRequest::Prompt& prompt,
                                           const CompletionRequest& request,
                                           const ServedModel& model) {
  const Tokenizer& tokenizer = *model.tokenizer;
  if (const auto* text = std::get_if<std::string>(&prompt)) CheckLength(text->size(), model);
  if (request.suffix) CheckLength(request.suffix->size(), model);
  if (!request.suffix) {
    if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) return *ids;
    return tokenizer.Encode(std::get<std::string>(prompt),
                            {.add_bos = request.add_special_tokens, .data_ranges = {}});
  }
  if (!model.fim.known()) {
    throw ApiError(400,
                   "suffix: this model has no fill-in-the-middle tokens, so nothing can be "
                   "completed before a suffix",
                   "suffix", "unsupported_value");
  }
  const EncodeOptions plain{.add_bos = false, .parse_special = false, .data_ranges = {}};
  const auto* ids = std::get_if<std::vector<int32_t>>(&prompt);
  const std::vector<int32_t> before =
      ids != nullptr ? *ids : tokenizer.Encode(std::get<std::string>(prompt), plain);
  return FillInTheMiddle(before, tokenizer.Encode(*request.suffix, plain), model,
                         request.add_special_tokens);
}

void CheckLength(size_t text_bytes, const ServedModel& model) {
  const uint64_t capacity = model.engine->capacity();
  const uint64_t tokens = text_bytes / model.longest_token;
  if (tokens <= capacity) return;
  throw Error(
      ErrorKind::kInvalid,
      fmt::format("the prompt has at least {} tokens; the context holds {}", tokens, capacity),
      {.context_overflow = {{tokens, 1, capacity}}});
}

FimTokens FindFimTokens(const Tokenizer& tokenizer) {
  for (const FimNames& names : kFimNames) {
    const FimTokens tokens{tokenizer.TokenId(names.prefix), tokenizer.TokenId(names.suffix),
                           tokenizer.TokenId(names.middle)};
    if (tokens.prefix >= 0 && tokens.suffix >= 0 && tokens.middle >= 0) return tokens;
  }
  return {};
}

}  // namespace hadal::api
