#include <fmt/format.h>
#include <malloc.h>
#include <xxhash.h>

#include <atomic>
#include <ctime>
#include <memory>
#include <optional>

#include "api/prompt_builder.h"
#include "api/server.h"
#include "base/error.h"
#include "chat/prompt_tokens.h"
#include "cli/memory_report.h"
#include "cli/prompt.h"
#include "cli/sampling.h"
#include "cli/serve_log.h"
#include "cli/serving_options.h"
#include "cli/session.h"
#include "cli/signals.h"
#include "http/server.h"
#include "insight/expert_load.h"
#include "web/web_files.h"

namespace hadal::cli {
namespace {

std::string ModelPath(const Arguments& arguments) {
  const std::string given = arguments.positional[0];
  const std::string model = given.empty() ? arguments.options.Text("model") : given;
  if (model.empty()) Fail(ErrorKind::kUsage, "MODEL is required, or --model");
  return model;
}

std::chrono::milliseconds Seconds(const OptionValues& options, const char* key) {
  return std::chrono::milliseconds(static_cast<int64_t>(1000 * options.Number(key)));
}

HttpServerOptions HttpOptions(const OptionValues& options) {
  HttpServerOptions http;
  http.host = options.Text("host");
  http.port = static_cast<uint16_t>(options.Integer("port"));
  http.io_threads = static_cast<int>(options.Integer("io-threads"));
  http.max_body_bytes = static_cast<uint64_t>(options.Integer("max-body"));
  http.max_connections = static_cast<size_t>(options.Integer("max-connections"));
  http.idle_timeout = Seconds(options, "idle-timeout");
  http.write_timeout = Seconds(options, "write-timeout");
  return http;
}

ApiKeys ReadKeys(const OptionValues& options) {
  std::vector<std::string> keys = options.List("api-key");
  if (options.Given("api-key-file")) {
    const std::vector<std::string> more = ApiKeys::ReadFile(options.Text("api-key-file"));
    keys.insert(keys.end(), more.begin(), more.end());
  }
  return ApiKeys(std::move(keys));
}

ToolFormat ChooseToolFormat(const std::string& template_source, const OptionValues& options) {
  const std::string name = options.Text("tool-parser");
  return name == "auto" ? DetectToolFormat(template_source) : ToolFormatOfName(name);
}

api::ModelNames ChooseNames(const std::string& path, const OptionValues& options) {
  std::vector<std::string> names = options.List("served-model-name");
  if (names.empty()) names.push_back(api::ModelNameOf(path));
  return {std::move(names), !options.Flag("no-aliases")};
}

// Names what decides the answers: the files and the types they are computed in.
std::string Fingerprint(const Checkpoint& checkpoint, const OptionValues& options) {
  std::string facts = fmt::format("{} {} {} {}", HADAL_VERSION, options.Text("dtype"),
                                  options.Text("weights"), options.Text("kv-dtype"));
  for (const std::filesystem::path& file : checkpoint.files()) {
    facts += fmt::format(" {} {}", file.filename().string(), std::filesystem::file_size(file));
  }
  return fmt::format("fp_{:012x}", XXH3_64bits(facts.data(), facts.size()) & 0xFFFFFFFFFFFF);
}

// Nothing is loaded from elsewhere, and no text can run as a script.
constexpr std::string_view kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

Reply PageReply(const WebFile& file) {
  Headers headers("Content-Type", std::string(file.content_type));
  headers.Add("Content-Security-Policy", std::string(kContentPolicy));
  headers.Add("X-Content-Type-Options", "nosniff").Add("Referrer-Policy", "no-referrer");
  headers.Add("Cache-Control", "no-cache");
  return {200, std::move(headers), std::string(file.bytes)};
}

void AddPage(Router& router) {
  for (const WebFile& file : WebFiles()) {
    router.Add("GET", file.path,
               api::Answering([&file](const Exchange&) { return PageReply(file); }),
               {.metric = "page", .while_draining = true});
  }
}

// The engine and all it stands on; the engine's thread ends first.
struct Loaded {
  api::ServedModel model;  // its engine and tokenizer are still to be set
  Tokenizer tokenizer;
  std::unique_ptr<Taps> taps;
  std::unique_ptr<Session> session;
  std::unique_ptr<Engine> engine;
};

size_t LongestToken(const Tokenizer& tokenizer) {
  size_t longest = 1;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    longest = std::max(longest, tokenizer.TokenBytes(id).size());
  }
  return longest;
}

// All but the engine and the tokenizer's place.
api::ServedModel Describe(const std::string& path, const Checkpoint& checkpoint,
                          const Vocabulary& vocabulary, const Tokenizer& tokenizer,
                          const OptionValues& options) {
  const ModelSpec& spec = checkpoint.spec();
  std::map<std::string, std::string> special = SpecialTokens(vocabulary, tokenizer);
  const std::string source = TemplateSource(vocabulary, options);
  std::optional<ChatTemplate> chat_template;
  if (!source.empty() || options.Given("chat-template")) {
    chat_template = ParseTemplate(source, vocabulary);
  }
  const HistoryStyle history =
      chat_template ? ProbeHistoryStyle(*chat_template, special) : HistoryStyle();
  return {.names = ChooseNames(path, options),
          .chat_template = std::move(chat_template),
          .special_tokens = std::move(special),
          .template_has_tools = source.find("tools") != std::string::npos,
          .template_has_thinking = source.find("think") != std::string::npos,
          .longest_token = LongestToken(tokenizer),
          .history = history,
          .tool_format = ChooseToolFormat(source, options),
          .params = {spec.vocab, spec.sampling, DryBreakers(tokenizer)},
          .eos_ids = spec.eos_ids,
          .fim = api::FindFimTokens(tokenizer),
          .created = std::time(nullptr),
          .system_fingerprint = Fingerprint(checkpoint, options)};
}

// What the memory plan has made of the options.
void Say(const Session& session, const MemoryBytes& reserved, ServeLog& log) {
  const FittedMemory& memory = session.memory;
  const uint64_t context = memory.choice.limits.max_context;
  log.Info(fmt::format("memory: {}", DescribeMemory(memory.bytes)));
  log.Debug(fmt::format("memory taken: {}", DescribeMemory(reserved)));
  log.Info(
      fmt::format("KV pool: {} pages; room for {} texts of {} tokens at once, {} sequences run",
                  fmt::join(memory.pages, " + "), memory.Sequences(context), context,
                  memory.choice.limits.max_sequences));
  if (memory.wanted_context > context) {
    log.Warn(fmt::format(
        "the model's context of {} tokens does not fit; --max-model-len is {}, the most that does",
        memory.wanted_context, context));
  }
}

Loaded Load(const std::string& path, const OptionValues& options, Metrics& metrics, ServeLog& log,
            const std::function<void(double)>& progress) {
  std::string problem;
  std::unique_ptr<SwapSpace> swap = OpenSwapSpace(options, problem);
  if (!problem.empty()) log.Warn(problem);
  Checkpoint checkpoint = Checkpoint::Open(path);
  std::optional<Vocabulary> vocabulary = checkpoint.TakeVocabulary();
  Tokenizer tokenizer = Tokenizer::Create(*vocabulary);
  api::ServedModel model = Describe(path, checkpoint, *vocabulary, tokenizer, options);
  // The vocabulary's text, and what parsing it took, are several times the tokenizer's size.
  vocabulary.reset();
  malloc_trim(0);
  std::unique_ptr<Session> session =
      OpenSession(std::move(checkpoint), options,
                  {.memory = ServingNeeds(options, tokenizer.bytes()),
                   .swap = std::move(swap),
                   .progress = progress,
                   .warn = [&log](const std::string& text) { log.Warn(text); }});
  const MemoryBytes reserved = ReservedMemory(*session, tokenizer.bytes());
  ReportMemory(session->memory.bytes, reserved, metrics);
  const LoadOutcome& load = session->model.load_outcome();
  metrics.Set(Gauge::kLoadSeconds, load.seconds, {load.from_cache ? "pack_cache" : "model"});
  log.Info(hadal::Describe(load));
  Say(*session, reserved, log);
  auto taps = std::make_unique<Taps>(CountExperts(session->spec(), metrics));
  session->runner->Observe(taps.get(), nullptr);
  std::unique_ptr<Engine> engine = session->StartEngine(ServingOptions(options, &metrics));
  return {std::move(model), std::move(tokenizer), std::move(taps), std::move(session),
          std::move(engine)};
}

// For requests that were ended to tell their clients so.
constexpr std::chrono::seconds kFarewell{2};

// True when all requests have finished; false at the deadline and at a second signal.
bool Drain(HttpServer& server, const StopSignals& signals, std::chrono::nanoseconds timeout) {
  constexpr std::chrono::milliseconds kLook{50};
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!server.Drain(kLook)) {
    if (std::chrono::steady_clock::now() >= deadline || signals.count() > 1) return false;
  }
  return true;
}

void Run(const Arguments& arguments, ServeLog& log) {
  const OptionValues& options = arguments.options;
  const std::string path = ModelPath(arguments);
  const StopSignals signals;  // before every other thread: they must not take the signals
  Metrics metrics;
  std::optional<Loaded> loaded;
  api::ApiServer api({.strict_params = options.Flag("strict-params"),
                      .reasoning_alias = options.Text("reasoning-field") == "both"},
                     metrics);
  Site site = api.MakeSite();
  AddPage(site.router);
  site.keys = ReadKeys(options);
  site.cors_origin = options.Text("cors-origin");
  site.access_log = [&log](const std::string& line) { log.Line(line); };
  HttpServer server(HttpOptions(options), std::move(site), metrics);
  log.Info(fmt::format("listening on http://{}:{}", options.Text("host"), server.port()));

  loaded = Load(path, options, metrics, log, [&](double progress) {
    api.SetProgress(progress);
    if (signals.count() > 0) Fail(ErrorKind::kCancelled, "stopped while loading");
  });
  loaded->model.engine = loaded->engine.get();
  loaded->model.tokenizer = &loaded->tokenizer;
  api.SetModel(std::move(loaded->model));
  log.Info(fmt::format("{} is ready: context of {} tokens, {}", path, loaded->engine->capacity(),
                       loaded->session->backend->Describe()));
  signals.Wait();
  log.Info("stopping: running requests may finish; a second signal ends them");
  const bool finished = Drain(server, signals, Seconds(options, "drain-timeout"));
  if (!finished) {
    loaded->engine->EndAll({ErrorKind::kResource,
                            "the server is shutting down; send the request again",
                            {.code = "draining", .retry_after_seconds = 1}});
    server.Drain(kFarewell);
  }
  server.Stop();
  log.Info(finished ? "stopped" : "stopped; some requests were ended before their time");
}

}  // namespace

int Serve(const Arguments& arguments) {
  ServeLog log(arguments.options.Text("log-level"));
  Run(arguments, log);
  return 0;
}

}  // namespace hadal::cli
