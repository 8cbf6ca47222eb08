#include <fmt/core.h>

#include <cstdio>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/figures.h"
#include "cli/line_reader.h"
#include "cli/prompt.h"
#include "cli/sampling.h"
#include "cli/session.h"
#include "engine/generate.h"

namespace hadal::cli {
namespace {

constexpr const char* kHelp =
    "/help           this list\n"
    "/reset          forget the conversation\n"
    "/stats          figures of the last answer\n"
    "/system TEXT    set the system message and start anew (no text: none)\n"
    "/exit           leave (Ctrl-D as well)\n"
    "Ctrl-C stops an answer.\n";

// What goes into the history: models are not shown their earlier thoughts.
std::string WithoutThought(const std::string& answer) {
  constexpr std::string_view kEnd = "</think>";
  const size_t end = answer.rfind(kEnd);
  if (end == std::string::npos) return answer;
  const size_t start = answer.find_first_not_of("\r\n", end + kEnd.size());
  return start == std::string::npos ? std::string() : answer.substr(start);
}

class Conversation {
 public:
  Conversation(const OptionValues& options, const Vocabulary& vocabulary,
               const Tokenizer& tokenizer)
      : tokenizer_(tokenizer), template_(ReadTemplate(vocabulary, options)) {
    if (options.Given("system")) system_ = options.Text("system");
    if (options.Flag("thinking")) input_.extra = {{"thinking", true}, {"enable_thinking", true}};
    input_.add_generation_prompt = true;
    input_.special_tokens = SpecialTokens(vocabulary, tokenizer);
    Reset();
  }

  void SetSystem(std::string text) {
    system_ = std::move(text);
    Reset();
  }
  void Reset() {
    input_.messages = OrderedJson::array();
    if (!system_.empty()) input_.messages.push_back(Message("system", system_));
  }
  std::vector<int32_t> Ask(const std::string& text) {
    RequireUtf8(text);
    input_.messages.push_back(Message("user", text));
    input_.now = std::time(nullptr);
    return EncodeMarked(tokenizer_, template_.Render(input_));
  }
  void Answer(const std::string& text) {
    input_.messages.push_back(Message("assistant", WithoutThought(text)));
  }
  // Takes a question back that got no answer.
  void Withdraw() { input_.messages.erase(input_.messages.size() - 1); }

 private:
  const Tokenizer& tokenizer_;
  ChatTemplate template_;
  std::string system_;
  ChatInput input_;
};

class ChatLoop {
 public:
  ChatLoop(const OptionValues& options, Session& session, const Tokenizer& tokenizer)
      : options_(options),
        session_(session),
        tokenizer_(tokenizer),
        engine_(session.StartEngine()),
        conversation_(options, session.checkpoint.vocabulary(), tokenizer),
        reader_("> ") {}

  void Run() {
    while (const std::optional<std::string> line = reader_.Next()) {
      if (line->empty()) continue;
      if (*line == "/exit" || *line == "/quit") return;
      if (line->front() == '/') {
        Command(*line);
      } else {
        Turn(*line);
      }
    }
    std::fputs("\n", stdout);
  }

 private:
  void Command(const std::string& line) {
    if (line == "/help") {
      std::fputs(kHelp, stdout);
    } else if (line == "/reset") {
      conversation_.Reset();
    } else if (line == "/stats") {
      fmt::print("{}\n", last_ ? Describe(*last_) : "no answer yet");
    } else if (line == "/system" || line.starts_with("/system ")) {
      conversation_.SetSystem(line.size() > 8 ? line.substr(8) : std::string());
    } else {
      fmt::print("{}: no such command; /help lists them\n", line);
    }
  }

  void Turn(const std::string& text) {
    const InterruptScope interrupt;
    try {
      Request request;
      request.prompt = conversation_.Ask(text);
      request.sampling = ReadSampling(options_, tokenizer_);
      request.eos_ids = session_.spec().eos_ids;
      request.max_tokens = MaxTokens(request.prompt.size());
      GenerateOptions generate;
      generate.stop_strings = options_.List("stop");
      generate.cancelled = [] { return InterruptScope::interrupted(); };
      generate.on_text = [](std::string_view piece) {
        std::fwrite(piece.data(), 1, piece.size(), stdout);
        std::fflush(stdout);
      };
      const GenerateResult result =
          hadal::Generate(*engine_, tokenizer_, std::move(request), generate);
      conversation_.Answer(result.text);
      last_ = MeasureFigures(session_, result.usage);
      Report(result);
    } catch (const Error& error) {
      conversation_.Withdraw();
      fmt::print(stderr, "{}\n", error.what());
    }
  }

  uint32_t MaxTokens(size_t n_prompt) const {
    const uint64_t context = engine_->capacity();
    if (n_prompt >= context) {
      Fail(ErrorKind::kInvalid,
           "the conversation has {} tokens, but the context holds {}: /reset starts anew", n_prompt,
           context);
    }
    const auto wanted = static_cast<uint64_t>(options_.Integer("max-tokens"));
    const uint64_t room = context - n_prompt;
    return static_cast<uint32_t>(wanted == 0 ? room : std::min(wanted, room));
  }

  void Report(const GenerateResult& result) const {
    const Usage& usage = result.usage;
    std::string note;
    if (result.reason == FinishReason::kLength) note = ", cut at the limit (-n or --ctx)";
    if (result.reason == FinishReason::kCancelled) note = ", stopped";
    fmt::print("\n[prompt {} tokens, {} reused; {} generated at {:.1f} tokens/s{}]\n",
               usage.prompt_tokens, usage.cached_tokens, usage.generated_tokens,
               last_->decode_tok_s, note);
    std::fflush(stdout);
  }

  const OptionValues& options_;
  Session& session_;
  const Tokenizer& tokenizer_;
  std::unique_ptr<Engine> engine_;
  Conversation conversation_;
  LineReader reader_;
  std::optional<Figures> last_;
};

}  // namespace

int Chat(const Arguments& arguments) {
  Checkpoint checkpoint = Checkpoint::Open(arguments.positional[0]);
  const Tokenizer tokenizer = Tokenizer::Create(checkpoint.vocabulary());
  const std::unique_ptr<Session> session =
      OpenSession(std::move(checkpoint), arguments.options, {});
  ChatLoop(arguments.options, *session, tokenizer).Run();
  return 0;
}

}  // namespace hadal::cli
