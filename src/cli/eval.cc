#include <fmt/core.h>

#include <chrono>

#include "base/error.h"
#include "base/json.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/session.h"
#include "insight/perplexity.h"

namespace hadal::cli {
namespace {

PerplexityOptions ReadOptions(const OptionValues& options, size_t n_tokens, uint64_t max_context) {
  if (options.Given("ctx")) {
    max_context = std::min(max_context, static_cast<uint64_t>(options.Integer("ctx")));
  }
  PerplexityOptions result;
  result.window = static_cast<uint32_t>(std::min<uint64_t>(
      {static_cast<uint64_t>(options.Integer("window")), n_tokens, max_context}));
  result.stride = static_cast<uint32_t>(options.Integer("stride"));
  return result;
}

void ShowScore(ProgressLine& line, const PerplexityProgress& progress) {
  if (InterruptScope::interrupted()) Fail(ErrorKind::kCancelled, "stopped");
  line.Show(fmt::format("{} of {} tokens, perplexity {:.4f}", progress.tokens_scored,
                        progress.tokens_total, progress.perplexity));
}

PerplexityResult Measure(Engine& engine, std::span<const int32_t> tokens,
                         const PerplexityOptions& options) {
  const InterruptScope interrupt;
  ProgressLine line;
  return MeasurePerplexity(engine, tokens, options, [&line](const PerplexityProgress& progress) {
    ShowScore(line, progress);
  });
}

}  // namespace

int Eval(const Arguments& arguments) {
  const OptionValues& options = arguments.options;
  if (arguments.positional[0] != "ppl") {
    Fail(ErrorKind::kUsage, "'{}': the one evaluation there is so far is ppl",
         arguments.positional[0]);
  }
  if (!options.Given("file")) Fail(ErrorKind::kUsage, "-f FILE: the text is needed");
  const std::string text = ReadFileOrInput(options.Text("file"));
  Checkpoint checkpoint = Checkpoint::Open(arguments.positional[1]);
  const Tokenizer tokenizer = Tokenizer::Create(checkpoint.vocabulary());
  const std::vector<int32_t> tokens =
      tokenizer.Encode(text, {.parse_special = false, .data_ranges = {}});
  const PerplexityOptions measure =
      ReadOptions(options, tokens.size(), checkpoint.spec().max_context);

  const std::unique_ptr<Session> session = OpenSession(
      std::move(checkpoint), options,
      {.memory = {.max_logit_rows = std::min(static_cast<uint32_t>(options.Integer("chunk")), 128u),
                  .context = measure.window}});
  const std::unique_ptr<Engine> engine = session->StartEngine();
  const auto start = std::chrono::steady_clock::now();
  const PerplexityResult result = Measure(*engine, tokens, measure);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (options.Flag("json")) {
    fmt::print("{}\n", OrderedJson{{"perplexity", result.perplexity},
                                   {"standard_error", result.standard_error},
                                   {"mean_nll", result.mean_nll},
                                   {"top1_accuracy", result.top1_accuracy},
                                   {"tokens_scored", result.tokens_scored},
                                   {"windows", result.windows},
                                   {"window", measure.window},
                                   {"seconds", seconds}}
                           .dump());
  } else {
    fmt::print(
        "perplexity {:.4f} +- {:.4f} over {} tokens in {} windows of {}; {:.1f} % of tokens "
        "were the most likely one; {:.1f} s\n",
        result.perplexity, result.standard_error, result.tokens_scored, result.windows,
        measure.window, 100 * result.top1_accuracy, seconds);
  }
  return 0;
}

}  // namespace hadal::cli
