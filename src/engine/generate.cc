#include "engine/generate.h"

#include <utility>

namespace hadal {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(50);

class Generation {
 public:
  Generation(RequestHandle handle, const Tokenizer& tokenizer, const GenerateOptions& options)
      : handle_(std::move(handle)),
        options_(options),
        stream_(tokenizer, options.stop_strings, options.skip_special) {
    result_.seed = handle_.seed();
  }

  GenerateResult Run() {
    while (!handle_.ended()) {
      const std::optional<RequestEvent> event = handle_.NextFor(kPollInterval);
      if (!cancel_sent_ && options_.cancelled && options_.cancelled()) Cancel();
      if (event) std::visit([this](const auto& e) { Take(e); }, *event);
    }
    return std::move(result_);
  }

 private:
  void Cancel() {
    cancel_sent_ = true;
    handle_.Cancel();
  }

  void Emit(const std::string& text) {
    if (text.empty()) return;
    result_.text += text;
    if (options_.on_text) options_.on_text(text);
  }

  void Take(const PromptEvent& event) {
    if (options_.on_prompt) options_.on_prompt(event);
  }

  void Take(const TokenEvent& event) {
    // The engine may have gone on a little while the stop string was being found.
    if (stream_.stopped()) return;
    result_.tokens.push_back(event.token);
    if (options_.on_token) options_.on_token(event);
    if (event.ends_text) return;
    Emit(stream_.Push(event.token));
    if (stream_.stopped()) Cancel();
  }

  void Take(const FinishedEvent& event) {
    if (event.error) throw *event.error;
    Emit(stream_.Finish());
    result_.usage = event.usage;
    result_.report = event.report;
    result_.usage.generated_tokens = static_cast<uint32_t>(result_.tokens.size());
    result_.stop_string = stream_.stopped();
    result_.reason = stream_.stopped() ? FinishReason::kStop : event.reason;
  }

  RequestHandle handle_;
  const GenerateOptions& options_;
  TextStream stream_;
  GenerateResult result_;
  bool cancel_sent_ = false;
};

}  // namespace

GenerateResult Generate(Engine& engine, const Tokenizer& tokenizer, Request request,
                        const GenerateOptions& options) {
  // A bad stop string is refused before anything runs.
  const StopFilter check(options.stop_strings);
  return Generation(engine.Submit(std::move(request)), tokenizer, options).Run();
}

}  // namespace hadal
