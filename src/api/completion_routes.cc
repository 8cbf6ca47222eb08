// POST /chat/completions and POST /completions.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>
#include <utility>

#include "api/chat_format.h"
#include "api/completion_format.h"
#include "api/prepare.h"
#include "api/prompt_builder.h"
#include "api/reply_flow.h"
#include "api/server.h"
#include "chat/prompt_tokens.h"
#include "http/request_id.h"

namespace hadal::api {
namespace {

// A request, ready for the engine.
struct Prepared {
  GenerationPlan plan;
  ReplyHead head;
  std::unique_ptr<ReplyFormat> format;
  std::vector<std::string> warnings;
  size_t n_unknown = 0;
  size_t n_missing_thoughts = 0;
};

void CheckUnknown(const std::vector<std::string>& unknown, const ApiOptions& options,
                  std::vector<std::string>& warnings) {
  if (unknown.empty()) return;
  if (options.strict_params) {
    throw ApiError(400, fmt::format("{} is not a parameter of this route", unknown.front()),
                   unknown.front(), "unknown_parameter");
  }
  // Clients have limits on headers: the first names do.
  constexpr size_t kNamed = 8, kNameBytes = 64;
  std::string names;
  for (size_t i = 0; i < std::min(unknown.size(), kNamed); ++i) {
    names += (i == 0 ? "" : ", ") + unknown[i].substr(0, kNameBytes);
  }
  if (unknown.size() > kNamed) names += fmt::format(" and {} more", unknown.size() - kNamed);
  warnings.push_back(fmt::format("not known here and ignored: {}", names));
}

ReplyHead MakeHead(std::string_view prefix, const std::string& model_name,
                   const ServedModel& model) {
  ReplyHead head;
  head.id = std::string(prefix) + NewRequestId().substr(4);
  head.created = std::time(nullptr);
  head.model = model_name.empty() ? model.names.own() : model_name;
  head.system_fingerprint = model.system_fingerprint;
  return head;
}

// Answers of the history that come back without their thoughts, which a model that thinks between
// tool calls has seen before. Without them the prompt, and what is cached of it, is another.
size_t CountMissingThoughts(const ChatRequest& request) {
  if (request.tools.is_null()) return 0;
  return static_cast<size_t>(std::count_if(
      request.messages.begin(), request.messages.end(), [](const OrderedJson& message) {
        return message["role"] == "assistant" && !message.contains("reasoning_content");
      }));
}

// What this model's template does not pass on.
void WarnOfTemplate(const ServedModel& model, ChatRequest& request) {
  if (!request.tools.is_null() && !model.template_has_tools) {
    request.warnings.push_back("the model's chat template knows no tools: they were ignored");
  }
  if (request.asks_to_think && !model.template_has_thinking) {
    request.warnings.push_back("the model's chat template knows no thinking: it was ignored");
  }
}

Prepared PrepareChat(const OrderedJson& body, const ServedModel& model, const ApiOptions& options) {
  ChatRequest request = ReadChatRequest(body, model.params, model.history);
  model.names.Check(request.model);
  CheckUnknown(request.unknown, options, request.warnings);
  WarnOfTemplate(model, request);
  const MarkedText text = RenderChat(request, model, std::time(nullptr));
  CheckLength(text.size(), model);

  Prepared prepared;
  prepared.head = MakeHead("chatcmpl-", request.model, model);
  prepared.plan.prompts.push_back(EncodeMarked(*model.tokenizer, text));
  OutputParserOptions& parser = prepared.plan.parser.emplace();
  parser.reasoning = ReasoningStartOf(text);
  if (!request.tools.is_null()) parser.tool_format = model.tool_format;
  parser.id_seed = prepared.head.id;
  prepared.plan.single_call = !request.parallel_tool_calls;
  if (parser.reasoning == ReasoningStart::kOpen) {
    prepared.n_missing_thoughts = CountMissingThoughts(request);
  }
  if (prepared.n_missing_thoughts > 0) {
    request.warnings.push_back(fmt::format("{} assistant messages came without reasoning_content",
                                           prepared.n_missing_thoughts));
  }
  prepared.format = std::make_unique<ChatFormat>(
      prepared.head,
      ChatFormatOptions{request.params.sampling.logprobs >= 0, options.reasoning_alias,
                        request.params.include_usage},
      *model.tokenizer);
  prepared.n_unknown = request.unknown.size();
  prepared.warnings = std::move(request.warnings);
  prepared.plan.params = std::move(request.params);
  return prepared;
}

// A limit that the client did not ask for is no reason to refuse its prompt.
void ClampToContext(const ServedModel& model, const std::vector<std::vector<int32_t>>& prompts,
                    GenerationParams& params) {
  const uint64_t capacity = model.engine->capacity();
  for (const std::vector<int32_t>& prompt : prompts) {
    if (prompt.size() >= capacity) return;
    params.max_tokens =
        static_cast<uint32_t>(std::min<uint64_t>(*params.max_tokens, capacity - prompt.size()));
  }
}

Prepared PrepareCompletion(const OrderedJson& body, const ServedModel& model,
                           const ApiOptions& options) {
  CompletionRequest request = ReadCompletionRequest(body, model.params);
  model.names.Check(request.model);
  CheckUnknown(request.unknown, options, request.warnings);

  Prepared prepared;
  prepared.head = MakeHead("cmpl-", request.model, model);
  for (const CompletionRequest::Prompt& prompt : request.prompts) {
    prepared.plan.prompts.push_back(BuildCompletionPrompt(prompt, request, model));
    if (prepared.plan.prompts.back().empty()) {
      throw ApiError(400, "prompt is empty: there is nothing to continue", "prompt",
                     "invalid_value");
    }
  }
  if (request.default_max_tokens) ClampToContext(model, prepared.plan.prompts, request.params);
  const bool logprobs = request.params.sampling.logprobs >= 0;
  prepared.plan.echo = request.echo && logprobs;
  prepared.format = std::make_unique<CompletionFormat>(
      prepared.head, CompletionFormatOptions{logprobs, request.echo, request.params.include_usage},
      *model.tokenizer);
  prepared.n_unknown = request.unknown.size();
  prepared.warnings = std::move(request.warnings);
  prepared.plan.params = std::move(request.params);
  return prepared;
}

Headers ReplyHeaders(const std::vector<std::string>& warnings, const Generation& generation) {
  Headers headers;
  for (const std::string& warning : warnings) headers.Add("X-Hadal-Warning", warning);
  for (const std::string& what : generation.degraded()) headers.Add("X-Hadal-Degraded", what);
  headers.Add("X-Hadal-Seed", std::to_string(generation.seed()));
  return headers;
}

// Puts a request into the log and the metrics when its handler ends, however it ends.
class Record {
 public:
  Record(RequestLog& log, Metrics& metrics, const Exchange& exchange, const Prepared& prepared)
      : log_(log), metrics_(metrics) {
    entry_.id = exchange.request().id;
    entry_.response_id = prepared.head.id;
    entry_.key = exchange.request().key;
    entry_.report = {{"id", entry_.id},
                     {"response_id", entry_.response_id},
                     {"model", prepared.head.model},
                     {"created", prepared.head.created},
                     {"status", "refused"},
                     {"warnings", prepared.warnings},
                     {"parameters", EffectiveValues(prepared.plan.params)}};
  }
  ~Record() {
    if (generation) End(*generation);
    log_.Add(std::move(entry_));
  }
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  std::optional<Generation> generation;

 private:
  void End(const Generation& ended) {
    entry_.report["parameters"]["seed"] = ended.seed();
    entry_.report["usage"] = UsageJson(ended.usage());
    entry_.report["choices"] = ended.Reports();
    entry_.report["status"] = ended.ended() ? "finished" : "cancelled";
    if (ended.failure()) {
      entry_.report["status"] = "failed";
      entry_.report["error"] = ended.failure()->message();
    }
    metrics_.Add(Counter::kReasoningTokens, static_cast<double>(ended.usage().reasoning_tokens));
    for (uint32_t i = 0; i < ended.n_choices(); ++i) {
      const std::string_view reason = ended.ended(i)    ? ended.choice(i).finish_reason()
                                      : ended.failure() ? "error"
                                                        : "cancelled";
      metrics_.Add(Counter::kFinished, 1, {reason});
    }
    if (ended.ended()) return;
    const bool shutdown = ended.failure() && ended.failure()->details().code == "draining";
    const std::string_view cause = shutdown          ? "shutdown"
                                   : ended.failure() ? "error"
                                                     : "client_gone";
    metrics_.Add(Counter::kAborted, 1, {cause});
  }

  RequestLog& log_;
  Metrics& metrics_;
  RequestLog::Entry entry_;
};

Awaitable<void> Answer(Exchange& exchange, Generation& generation, Prepared& prepared,
                       std::chrono::nanoseconds keep_alive) {
  Headers headers = ReplyHeaders(prepared.warnings, generation);
  const GenerationParams& params = generation.params();
  if (!params.stream) {
    co_await SendWhole(exchange, generation, *prepared.format, std::move(headers));
    co_return;
  }
  const StreamOptions options{params.include_usage, keep_alive};
  co_await SendStream(exchange, generation, *prepared.format, std::move(headers), options);
}

}  // namespace

// The whole way of a completion request; `prepare` reads its body.
template <typename Prepare>
Awaitable<void> ApiServer::Complete(Exchange& exchange, Prepare prepare) {
  const ServedModel& model = Model();
  CheckEncoding(exchange.request());
  // A closure inside a co_await expression would be destroyed twice by GCC 12.
  auto job = [this, &model, prepare, body = exchange.request().body] {
    return prepare(ParseBody(body), model, options_);
  };
  Prepared prepared = co_await RunOn(pool_, exchange, std::move(job));
  metrics_.Add(Counter::kUnknownParameters, static_cast<double>(prepared.n_unknown));
  metrics_.Add(Counter::kMissingReasoning, static_cast<double>(prepared.n_missing_thoughts));
  prepared.plan.tenant = static_cast<uint32_t>(exchange.request().key.value_or(0));
  prepared.plan.wake = [notifier = exchange.notifier()] { notifier.Notify(); };
  Record record(log_, metrics_, exchange, prepared);
  record.generation.emplace(model, std::move(prepared.plan));
  co_await Answer(exchange, *record.generation, prepared, options_.keep_alive);
}

void ApiServer::AddCompletionRoutes(Router& router) {
  for (const std::string_view prefix : kRoutePrefixes) {
    router.Add("POST", std::string(prefix) + "/chat/completions",
               [this](Exchange& exchange) { return Complete(exchange, PrepareChat); },
               {.metric = "chat"});
    router.Add("POST", std::string(prefix) + "/completions",
               [this](Exchange& exchange) { return Complete(exchange, PrepareCompletion); },
               {.metric = "completions"});
  }
}

}  // namespace hadal::api
