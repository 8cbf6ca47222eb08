// POST /tokenize, /detokenize and /apply-template, with the bodies of vLLM and of llama-server.
#include <ctime>
#include <string>

#include "api/chat_request.h"
#include "api/prepare.h"
#include "api/prompt_builder.h"
#include "api/reply_parts.h"
#include "api/server.h"
#include "base/utf8.h"
#include "chat/prompt_tokens.h"

namespace hadal::api {
namespace {

// vLLM gives `prompt` or `messages` and adds special tokens; llama-server gives `content` and does
// not.
std::vector<int32_t> Encode(Fields& fields, const OrderedJson& body, const ServedModel& model) {
  const Tokenizer& tokenizer = *model.tokenizer;
  if (fields.Has("messages")) {
    const ChatRequest request = ReadChatRequest(body, model.params, model.history);
    return EncodeMarked(tokenizer, RenderChat(request, model, std::time(nullptr)));
  }
  const std::optional<std::string> prompt = fields.String("prompt");
  const std::optional<std::string> content = fields.String("content");
  if (prompt.has_value() == content.has_value()) {
    fields.Refuse("prompt", "must be given, or content, or messages", "missing_required_parameter");
  }
  EncodeOptions options;
  options.add_bos = prompt ? fields.Bool("add_special_tokens").value_or(true)
                           : fields.Bool("add_special").value_or(false);
  options.parse_special = fields.Bool("parse_special").value_or(true);
  const std::string& text = prompt ? *prompt : *content;
  return tokenizer.Encode(text, options);
}

// llama-server's: text where the bytes are text, else the bytes.
OrderedJson PieceJson(const std::string& bytes) {
  if (FindInvalidUtf8(bytes) == std::string_view::npos) return bytes;
  OrderedJson list = OrderedJson::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return list;
}

OrderedJson Tokenize(const OrderedJson& body, const ServedModel& model) {
  Fields fields(body, "");
  model.names.Check(fields.String("model").value_or(""));
  const std::vector<int32_t> ids = Encode(fields, body, model);
  OrderedJson tokens = ids, strings = OrderedJson::array();
  if (fields.Bool("with_pieces").value_or(false)) {
    tokens = OrderedJson::array();
    for (const int32_t id : ids) {
      tokens.push_back({{"id", id}, {"piece", PieceJson(model.tokenizer->TokenBytes(id))}});
    }
  }
  OrderedJson reply = {{"count", ids.size()},
                       {"max_model_len", model.engine->capacity()},
                       {"tokens", std::move(tokens)}};
  if (fields.Bool("return_token_strs").value_or(false)) {
    for (const int32_t id : ids) strings.push_back(model.tokenizer->Piece(id));
    reply["token_strs"] = std::move(strings);
  }
  return reply;
}

OrderedJson Detokenize(const OrderedJson& body, const ServedModel& model) {
  Fields fields(body, "");
  model.names.Check(fields.String("model").value_or(""));
  const OrderedJson* tokens = fields.Find("tokens");
  if (tokens == nullptr) fields.Refuse("tokens", "is missing", "missing_required_parameter");
  const std::string text =
      model.tokenizer->Decode(TokenIdsOf(*tokens, model.params.vocab, "tokens"));
  return {{"prompt", text}, {"content", text}};
}

OrderedJson ApplyTemplate(const OrderedJson& body, const ServedModel& model) {
  const ChatRequest request = ReadChatRequest(body, model.params, model.history);
  model.names.Check(request.model);
  return {{"prompt", RenderChat(request, model, std::time(nullptr)).text}};
}

}  // namespace

Awaitable<void> ApiServer::AnswerText(Exchange& exchange, TextFunction function) {
  const ServedModel& model = Model();
  CheckEncoding(exchange.request());
  auto job = [&model, function, body = exchange.request().body] {
    return function(ParseBody(body), model);
  };
  const OrderedJson json = co_await RunOn(pool_, exchange, std::move(job));
  Reply reply = JsonReply(200, json);
  co_await exchange.Respond(std::move(reply));
}

void ApiServer::AddTextRoutes(Router& router) {
  for (const std::string prefix : {"", "/v1"}) {
    const auto add = [&](const char* path, TextFunction function, std::string_view metric) {
      router.Add("POST", prefix + path,
                 [this, function](Exchange& exchange) { return AnswerText(exchange, function); },
                 {.metric = metric});
    };
    add("/tokenize", Tokenize, "tokenize");
    add("/detokenize", Detokenize, "tokenize");
    add("/apply-template", ApplyTemplate, "template");
  }
}

}  // namespace hadal::api
