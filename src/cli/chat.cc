#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
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

std::string WithoutOuterSpace(const std::string& line) {
  constexpr const char* kSpace = " \t\r\n";
  const size_t begin = line.find_first_not_of(kSpace);
  if (begin == std::string::npos) return {};
  return line.substr(begin, line.find_last_not_of(kSpace) - begin + 1);
}

class Conversation {
 public:
  Conversation(const OptionValues& options, const Vocabulary& vocabulary,
               const Tokenizer& tokenizer)
      : tokenizer_(tokenizer), template_(ReadTemplate(vocabulary, options)) {
    if (options.Given("system")) system_ = SystemMessage(options);
    if (options.Flag("thinking")) input_.extra = {{"thinking", true}, {"enable_thinking", true}};
    input_.add_generation_prompt = true;
    input_.special_tokens = SpecialTokens(vocabulary, tokenizer);
    Reset();
  }

  void SetSystem(std::string text) {
    RequireUtf8(text, "the system message");
    system_ = std::move(text);
    Reset();
  }
  void Reset() {
    input_.messages = OrderedJson::array();
    if (!system_.empty()) input_.messages.push_back(Message("system", system_));
  }
  // The whole conversation with `text` as its last question; a question that fails is not kept.
  std::vector<int32_t> Ask(const std::string& text) {
    RequireUtf8(text, "the text");
    input_.messages.push_back(Message("user", text));
    input_.now = std::time(nullptr);
    try {
      return EncodeMarked(tokenizer_, template_.Render(input_));
    } catch (const Error&) {
      Withdraw();
      throw;
    }
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
  ChatLoop(const OptionValues& options, SamplingParams sampling, Conversation conversation,
           Session& session, const Tokenizer& tokenizer)
      : options_(options),
        sampling_(std::move(sampling)),
        session_(session),
        tokenizer_(tokenizer),
        engine_(session.StartEngine()),
        conversation_(std::move(conversation)),
        reader_("> ") {}

  void Run() {
    // Between answer and prompt, too, Ctrl-C must not end the program that a person talks to.
    std::optional<InterruptScope> interrupt;
    if (isatty(STDIN_FILENO) == 1) interrupt.emplace();
    // Output that nobody can read any more ends the conversation; see FinishOutput.
    while (std::ferror(stdout) == 0) {
      const std::optional<std::string> line = reader_.Next();
      if (!line) break;
      const std::string text = WithoutOuterSpace(*line);
      if (text.empty()) continue;
      if (text == "/exit" || text == "/quit") return;
      if (text.front() == '/') {
        Command(text);
      } else {
        Turn(*line);
      }
      std::fflush(stdout);
    }
    std::fputs("\n", stdout);
  }

 private:
  void Command(const std::string& line) {
    if (line == "/help") {
      std::fputs(kHelp, stdout);
    } else if (line == "/reset") {
      conversation_.Reset();
      std::fputs("(the conversation starts anew)\n", stdout);
    } else if (line == "/stats") {
      fmt::print("{}\n", last_ ? Describe(*last_) : "no answer yet");
    } else if (line == "/system" || line.starts_with("/system ")) {
      SetSystem(line.size() > 8 ? line.substr(8) : std::string());
    } else {
      fmt::print("{}: no such command; /help lists them\n", line);
    }
  }

  void SetSystem(const std::string& text) {
    try {
      conversation_.SetSystem(text);
      fmt::print("(the conversation starts anew, {} system message)\n",
                 text.empty() ? "without a" : "with this");
    } catch (const Error& error) {
      fmt::print(stderr, "{}\n", error.what());
    }
  }

  void Turn(const std::string& text) {
    const InterruptScope interrupt;
    bool asked = false;
    try {
      Request request;
      request.prompt = conversation_.Ask(text);
      asked = true;
      request.sampling = sampling_;
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
      last_ = MeasureFigures(session_, result.usage, result.report);
      Report(result);
    } catch (const Error& error) {
      if (asked) conversation_.Withdraw();
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
  SamplingParams sampling_;
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
  // What the user got wrong shows before a large model is loaded.
  SamplingParams sampling = ReadSampling(arguments.options, tokenizer);
  Conversation conversation(arguments.options, checkpoint.vocabulary(), tokenizer);
  const std::unique_ptr<Session> session =
      OpenSession(std::move(checkpoint), arguments.options, {});
  ChatLoop(arguments.options, std::move(sampling), std::move(conversation), *session, tokenizer)
      .Run();
  return 0;
}

}  // namespace hadal::cli
