#include "engine/generate.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/figures.h"
#include "cli/prompt.h"
#include "cli/sampling.h"
#include "cli/session.h"

namespace hadal::cli {
namespace {

bool UsesChat(const Vocabulary& vocabulary, const OptionValues& options) {
  if (options.Flag("chat") && options.Flag("raw")) {
    Fail(ErrorKind::kUsage, "--chat and --raw contradict each other");
  }
  if (options.Flag("raw")) {
    for (const char* key : {"system", "chat-template", "thinking", "now"}) {
      if (options.Given(key)) Fail(ErrorKind::kUsage, "--{} has no meaning with --raw", key);
    }
    return false;
  }
  return options.Flag("chat") || options.Given("chat-template") || options.Given("system") ||
         !vocabulary.chat_template.empty();
}

std::vector<int32_t> EncodePrompt(const std::string& text, const Vocabulary& vocabulary,
                                  const Tokenizer& tokenizer, const OptionValues& options) {
  if (text.empty()) {
    Fail(ErrorKind::kInvalid, "the prompt is empty: there is nothing to continue");
  }
  if (!UsesChat(vocabulary, options)) return tokenizer.Encode(text);
  RequireUtf8(text, "the text");
  ChatInput input;
  if (options.Given("system")) input.messages.push_back(Message("system", SystemMessage(options)));
  input.messages.push_back(Message("user", text));
  input.add_generation_prompt = true;
  if (options.Flag("thinking")) input.extra = {{"thinking", true}, {"enable_thinking", true}};
  input.special_tokens = SpecialTokens(vocabulary, tokenizer);
  input.now = ReadNow(options);
  return EncodeMarked(tokenizer, ReadTemplate(vocabulary, options).Render(input));
}

// How many tokens to generate, which must leave room for the prompt.
uint32_t ChooseMaxTokens(const OptionValues& options, size_t n_prompt, uint64_t context) {
  if (n_prompt >= context) {
    Fail(ErrorKind::kInvalid,
         "the prompt has {} tokens, but the context holds {}, the answer included: shorten the "
         "text{}",
         n_prompt, context, options.Given("ctx") ? " or raise --ctx" : "");
  }
  const uint64_t room = context - n_prompt;
  const auto wanted = static_cast<uint64_t>(options.Integer("max-tokens"));
  if (wanted == 0) return static_cast<uint32_t>(room);
  if (wanted <= room) return static_cast<uint32_t>(wanted);
  if (options.Given("max-tokens")) {
    Fail(ErrorKind::kInvalid,
         "the prompt's {} tokens and {} more do not fit the context of {}: {} is the most for -n",
         n_prompt, wanted, context, room);
  }
  return static_cast<uint32_t>(room);
}

OrderedJson ToJson(const Tokenizer& tokenizer, const GenerateResult& result,
                   const std::vector<TokenEvent>& events, const Figures& figures,
                   const LoadOutcome& load) {
  OrderedJson json = {{"text", result.text},
                      {"ids", result.tokens},
                      {"finish_reason", Name(result.reason)},
                      {"stop_string", nullptr},
                      {"seed", result.seed},
                      {"usage",
                       {{"prompt_tokens", result.usage.prompt_tokens},
                        {"cached_tokens", result.usage.cached_tokens},
                        {"completion_tokens", result.usage.generated_tokens}}},
                      {"figures",
                       {{"prefill_tokens_per_second", figures.prefill_tok_s},
                        {"decode_tokens_per_second", figures.decode_tok_s},
                        {"draft_tokens", figures.drafted_tokens},
                        {"accepted_draft_tokens", figures.accepted_tokens},
                        {"decode_gb_per_second", figures.decode_gbs},
                        {"peak_memory_bytes", figures.peak_rss},
                        {"load_seconds", load.seconds},
                        {"load_from_cache", load.from_cache}}}};
  if (result.stop_string) json["stop_string"] = *result.stop_string;
  const auto entry = [&tokenizer](const TokenLogprob& token) {
    return OrderedJson{{"id", token.token},
                       {"piece", ReplaceInvalidUtf8(tokenizer.TokenBytes(token.token))},
                       {"logprob", token.logprob}};
  };
  for (const TokenEvent& event : events) {
    if (!event.logprobs) continue;
    OrderedJson row = entry(event.logprobs->chosen);
    row["top"] = OrderedJson::array();
    for (const TokenLogprob& other : event.logprobs->top) row["top"].push_back(entry(other));
    json["logprobs"].push_back(row);
  }
  return json;
}

}  // namespace

int Generate(const Arguments& arguments) {
  const OptionValues& options = arguments.options;
  const std::string text = ReadInput(arguments);
  Checkpoint checkpoint = Checkpoint::Open(arguments.positional[0]);
  const Vocabulary& vocabulary = checkpoint.vocabulary();
  const Tokenizer tokenizer = Tokenizer::Create(vocabulary);
  const uint64_t model_context = checkpoint.spec().max_context;
  const uint64_t context =
      options.Given("ctx") ? static_cast<uint64_t>(options.Integer("ctx")) : model_context;

  Request request;
  request.prompt = EncodePrompt(text, vocabulary, tokenizer, options);
  request.max_tokens = ChooseMaxTokens(options, request.prompt.size(), context);
  request.sampling = ReadSampling(options, tokenizer);
  request.sampling.ignore_eos = options.Flag("ignore-eos");
  if (options.Given("logprobs")) {
    if (!options.Flag("json")) Fail(ErrorKind::kUsage, "--logprobs needs --json");
    request.sampling.logprobs = static_cast<int32_t>(options.Integer("logprobs"));
  }
  request.eos_ids = checkpoint.spec().eos_ids;

  const std::unique_ptr<Session> session =
      OpenSession(std::move(checkpoint), options,
                  {.memory = {.context = request.prompt.size() + *request.max_tokens}});
  const std::unique_ptr<Engine> engine = session->StartEngine();
  const InterruptScope interrupt;
  const bool json = options.Flag("json");
  std::vector<TokenEvent> events;
  bool reader_gone = false;
  GenerateOptions generate;
  generate.stop_strings = options.List("stop");
  generate.cancelled = [&] { return InterruptScope::interrupted() || reader_gone; };
  if (!json) {
    generate.on_text = [&](std::string_view piece) {
      reader_gone = std::fwrite(piece.data(), 1, piece.size(), stdout) != piece.size() ||
                    std::fflush(stdout) != 0;
    };
  }
  generate.on_token = [&](const TokenEvent& event) { events.push_back(event); };
  const GenerateResult result = hadal::Generate(*engine, tokenizer, std::move(request), generate);

  const Figures figures = MeasureFigures(*session, result.usage, result.report);
  if (json) {
    fmt::print("{}\n",
               ToJson(tokenizer, result, events, figures, session->model.load_outcome()).dump());
  } else {
    if (!reader_gone) std::fputs("\n", stdout);
    std::fflush(stdout);
    if (result.reason == FinishReason::kLength) {
      const uint64_t used = result.usage.prompt_tokens + uint64_t{result.usage.generated_tokens};
      fmt::print(stderr, "(stopped after {} tokens, {})\n", result.usage.generated_tokens,
                 used >= context ? "the context is full" : "-n");
    }
    if (options.Flag("stats")) {
      fmt::print(stderr, "{}{}\n{}\n", Describe(figures),
                 options.Number("temp") > 0 ? fmt::format(", seed {}", result.seed) : "",
                 hadal::Describe(session->model.load_outcome()));
    }
  }
  return InterruptScope::interrupted() ? 130 : 0;
}

}  // namespace hadal::cli
