// `hadal bench serve URL`: a load on a server, and what it showed.
#include <fmt/core.h>
#include <sys/resource.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <optional>

#include "base/error.h"
#include "cli/output.h"
#include "cli/session.h"
#include "formats/checkpoint.h"
#include "insight/load_client.h"
#include "insight/load_prompt.h"
#include "insight/load_report.h"
#include "insight/load_trace.h"

namespace hadal::cli {
namespace {

using namespace hadal::load;

double ReadRate(const OptionValues& options) {
  const std::string text = options.Text("request-rate");
  if (text == "inf") return std::numeric_limits<double>::infinity();
  const double rate = ParseNumber(text, "--request-rate");
  if (!(rate > 0)) Fail(ErrorKind::kUsage, "--request-rate: {} is not above 0", text);
  return rate;
}

std::vector<double> ReadPercents(const OptionValues& options) {
  std::vector<double> percents;
  const std::string text = options.Text("percentiles");
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const double percent = ParseNumber(text.substr(at, end - at), "--percentiles");
    if (!(percent >= 0 && percent <= 100)) {
      Fail(ErrorKind::kUsage, "--percentiles: {} is outside 0 to 100", percent);
    }
    percents.push_back(percent);
    at = end + 1;
  }
  return percents;
}

std::vector<TraceItem> ReadOrMakeTrace(const OptionValues& options) {
  if (options.Given("trace")) {
    for (const char* key : {"request-rate", "num-prompts", "input-len", "output-len",
                            "shared-prefix", "shared-fraction", "prefixes"}) {
      if (options.Given(key)) {
        Fail(ErrorKind::kUsage, "--{} and --trace contradict each other", key);
      }
    }
    return ReadTrace(options.Text("trace"));
  }
  TraceSpec spec;
  spec.n = static_cast<uint32_t>(options.Integer("num-prompts"));
  spec.request_rate = ReadRate(options);
  spec.input = ParseLengths(options.Text("input-len"), "--input-len");
  spec.output = ParseLengths(options.Text("output-len"), "--output-len");
  spec.prefix_tokens = static_cast<uint32_t>(options.Integer("shared-prefix"));
  spec.shared_fraction = options.Number("shared-fraction");
  spec.n_prefixes = static_cast<uint32_t>(options.Integer("prefixes"));
  spec.seed = ParseUnsigned(options.Text("seed"), "--seed");
  return MakeTrace(spec);
}

// Everything that the requests of a run have in common.
struct Target {
  ClientOptions client;
  std::string model;
  bool chat = false, ignore_eos = false;
  const Tokenizer* ids_of = nullptr;  // prompts go as token ids of this; null: as text

  const char* route() const { return chat ? "/chat/completions" : "/completions"; }
};

std::string Body(const Target& target, const std::string& prompt, uint32_t max_tokens) {
  OrderedJson body = {{"model", target.model}};
  if (target.chat) {
    body["messages"] = {{{"role", "user"}, {"content", prompt}}};
  } else if (target.ids_of != nullptr) {
    body["prompt"] = target.ids_of->Encode(prompt);
  } else {
    body["prompt"] = prompt;
  }
  body["max_tokens"] = max_tokens;
  body["temperature"] = 0;
  if (target.ignore_eos) body["ignore_eos"] = true;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  return body.dump();
}

std::string FirstModel(const ClientOptions& client) {
  const Json models = FetchJson(client, "/models");
  if (models.is_object() && models.contains("data") && models["data"].is_array() &&
      !models["data"].empty() && models["data"][0].contains("id") &&
      models["data"][0]["id"].is_string()) {
    return models["data"][0]["id"].get<std::string>();
  }
  Fail(ErrorKind::kResource, "the server names no model; give --model");
}

// What the server counts for a prompt of `n` words.
double TokensOfWords(const Target& target, const PromptMaker& prompts, size_t n) {
  const LoadRequest probe{0, Body(target, prompts.Words(n), 1)};
  const RequestResult result = RunLoad(target.client, target.route(), {&probe, 1})[0];
  if (result.outcome != Outcome::kOk) {
    Fail(ErrorKind::kResource, "a first request failed: {} {}",
         result.status == 0 ? std::string(Name(result.outcome)) : std::to_string(result.status),
         result.problem);
  }
  return result.prompt_tokens;
}

void Calibrate(const Target& target, PromptMaker& prompts) {
  constexpr size_t kFew = 16, kMany = 80;
  const double few = TokensOfWords(target, prompts, kFew);
  const double many = TokensOfWords(target, prompts, kMany);
  if (few == 0) {
    fmt::print(stderr, "the server reports no usage: a word is taken for a token\n");
    return;
  }
  const double slope = (many - few) / (kMany - kFew);
  prompts.Calibrate(slope, few - slope * kFew);
}

// Each stream needs a descriptor.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::string Today() {
  char text[32];
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

void WriteJson(const std::string& path, const OrderedJson& json) {
  std::ofstream file(path);
  file << json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) << '\n';
  if (!file.flush()) Fail(ErrorKind::kIo, "{}: cannot be written", path);
}

void Check(const OptionValues& options) {
  if (options.Flag("detailed") && !options.Given("json")) {
    Fail(ErrorKind::kUsage, "--detailed has no meaning without --json FILE");
  }
  if (options.Text("prompt-form") == "ids") {
    if (!options.Given("model-path")) {
      Fail(ErrorKind::kUsage, "--prompt-form ids: needs --model-path");
    }
    if (options.Text("endpoint") == "chat") {
      Fail(ErrorKind::kUsage, "--prompt-form ids: messages of a chat are text");
    }
  }
}

}  // namespace

int BenchServe(const Arguments& arguments) {
  const OptionValues& options = arguments.options;
  Check(options);
  const std::vector<double> percents = ReadPercents(options);
  const std::vector<TraceItem> trace = ReadOrMakeTrace(options);
  Target target;
  target.client.server = ParseUrl(arguments.positional[0]);
  if (options.Given("write-trace")) WriteTrace(options.Text("write-trace"), trace);
  RaiseDescriptorLimit();
  const InterruptScope interrupt;
  target.client.api_key = options.Text("api-key");
  target.client.timeout = options.Number("timeout");
  target.client.stopped = [] { return InterruptScope::interrupted(); };
  target.chat = options.Text("endpoint") == "chat";
  target.ignore_eos = options.Flag("ignore-eos");
  target.model = options.Given("model") ? options.Text("model") : FirstModel(target.client);

  const std::string model_path = options.Text("model-path");
  std::optional<Tokenizer> tokenizer;
  if (!model_path.empty()) {
    tokenizer.emplace(Tokenizer::Create(Checkpoint::OpenVocabulary(model_path)));
  }
  PromptMaker prompts(ParseUnsigned(options.Text("seed"), "--seed"),
                      tokenizer ? &*tokenizer : nullptr);
  if (options.Text("prompt-form") == "ids") target.ids_of = &*tokenizer;
  if (!tokenizer) Calibrate(target, prompts);
  std::vector<LoadRequest> requests;
  for (size_t i = 0; i < trace.size(); ++i) {
    requests.push_back(
        {trace[i].arrival, Body(target, prompts.Make(trace[i], i), trace[i].output_tokens)});
  }

  ProgressLine progress;
  target.client.on_done = [&](size_t n) {
    progress.Show(fmt::format("{} of {} requests", n, requests.size()));
  };
  target.client.max_concurrency = static_cast<uint32_t>(options.Integer("max-concurrency"));
  std::vector<RequestResult> results = RunLoad(target.client, target.route(), requests);
  for (size_t i = 0; i < results.size(); ++i) {
    // Of a server without usage.
    if (results[i].prompt_tokens == 0) results[i].prompt_tokens = trace[i].input_tokens;
  }
  const LoadReport report = MakeReport(results, percents);
  const RunFacts facts{.url = arguments.positional[0],
                       .endpoint = target.chat ? "openai-chat" : "openai",
                       .model = target.model,
                       .tokenizer = model_path,
                       .date = Today(),
                       .request_rate = ReadRate(options),
                       .max_concurrency = target.client.max_concurrency};
  fmt::print("{}", ToText(report, facts));
  if (options.Given("json")) {
    const bool detailed = options.Flag("detailed");
    WriteJson(options.Text("json"),
              ToJson(report, facts, detailed ? results : std::vector<RequestResult>()));
  }
  // A refusal is an answer; a stream that was lost is a fault.
  const auto count = [&report](Outcome outcome) {
    const auto found = report.outcomes.find(outcome);
    return found == report.outcomes.end() ? 0 : found->second;
  };
  return count(Outcome::kOk) + count(Outcome::kRefused) == results.size() ? 0 : 1;
}

}  // namespace hadal::cli
