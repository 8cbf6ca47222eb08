#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <deque>
#include <new>

#include "base/error.h"
#include "cli/command.h"

namespace hadal::cli {
namespace {

struct Bound {
  const OptionSpec* spec;
  std::vector<std::string> values;
  CLI::Option* option = nullptr;
};

struct Parsed {
  const Command* command;
  CLI::App* app;
  std::deque<Bound> options;  // addresses stay put while CLI11 writes into them
  std::deque<std::string> positionals;
};

void BindOption(CLI::App& app, Bound& bound) {
  const OptionSpec& spec = *bound.spec;
  const std::string names(spec.names);
  const std::string help(spec.help);
  if (spec.type == OptionType::kFlag) {
    bound.option = app.add_flag(names, help);
  } else {
    bound.option = app.add_option(names, bound.values, help)->expected(1);
    bound.option->type_name(spec.choices.empty() ? "" : std::string(spec.choices));
    if (!spec.fallback.empty()) bound.option->default_str(std::string(spec.fallback));
    if (spec.type == OptionType::kTextList) {
      bound.option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    } else {
      bound.option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
  }
  bound.option->group(std::string(spec.group));
}

void Bind(CLI::App& root, Parsed& parsed) {
  const Command& command = *parsed.command;
  parsed.app = root.add_subcommand(std::string(command.name), std::string(command.summary));
  parsed.app->footer("Examples:\n" + std::string(command.examples));
  for (std::string_view positional : command.positionals) {
    const bool optional = positional.back() == '?';
    if (optional) positional.remove_suffix(1);
    std::string& target = parsed.positionals.emplace_back();
    auto* option = parsed.app->add_option(std::string(positional), target);
    if (!optional) option->required();
  }
  for (const OptionSpec& spec : OptionTable()) {
    if (!TakesOption(spec, command.name)) continue;
    BindOption(*parsed.app, parsed.options.emplace_back(Bound{&spec, {}, nullptr}));
  }
}

Arguments Collect(const Parsed& parsed) {
  Arguments arguments{{parsed.positionals.begin(), parsed.positionals.end()},
                      OptionValues(std::string(parsed.command->name))};
  for (const Bound& bound : parsed.options) {
    if (bound.option->count() > 0) arguments.options.Set(*bound.spec, bound.values);
  }
  return arguments;
}

int Run(const Parsed& parsed) {
  try {
    return parsed.command->run(Collect(parsed));
  } catch (const Error& error) {
    std::fprintf(stderr, "hadal %s: %s\n", std::string(parsed.command->name).c_str(), error.what());
    if (error.kind() == ErrorKind::kUsage) return 2;
    return error.kind() == ErrorKind::kCancelled ? 130 : 1;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "hadal %s: out of memory; try a smaller --ctx\n",
                 std::string(parsed.command->name).c_str());
    return 1;
  }
}

}  // namespace

std::span<const Command> Commands() {
  static const std::vector<Command> commands = {
      {"generate",
       "Continue a text, or answer a question through the chat template",
       {"MODEL", "SOURCE?"},
       "  hadal generate model.gguf -p \"What is the capital of France?\"\n"
       "  hadal generate model.gguf --raw -p \"Once upon a time\" -n 64 --temp 0.8 --seed 1\n"
       "  cat notes.txt | hadal generate model.gguf - --system \"Summarize.\" --stats\n",
       Generate},
      {"chat",
       "Talk to a model, turn by turn",
       {"MODEL"},
       "  hadal chat model.gguf --system \"You are brief.\"\n",
       Chat},
      {"inspect",
       "Say what a model file holds, and what is odd about it",
       {"MODEL"},
       "  hadal inspect model.gguf\n  hadal inspect folder/ --json\n",
       Inspect},
      {"tokenize",
       "Turn text into token ids, or ids into text",
       {"MODEL", "SOURCE?"},
       "  hadal tokenize model.gguf -p \"Hello\" --json\n"
       "  hadal tokenize model.gguf --decode \"9906 1917\"\n"
       "  hadal tokenize folder/ --chat conversation.json --render\n",
       Tokenize},
      {"logits",
       "Write raw logits, for comparing with other engines",
       {"MODEL"},
       "  hadal logits model.gguf --ids \"1 2 3\" --out logits.f32 --dtype f32 --kv-dtype f32\n",
       Logits},
      {"eval",
       "Measure quality: `eval ppl` gives the perplexity of a text",
       {"WHAT", "MODEL"},
       "  hadal eval ppl model.gguf -f text.txt --window 2048\n",
       Eval},
      {"quantize",
       "Write a model as GGUF in another type",
       {"IN", "OUT"},
       "  hadal quantize folder/ model-q8_0.gguf --type q8_0\n",
       Quantize},
      {"bench",
       "Measure prefill and decode speed beside the machine's own limits",
       {"MODEL"},
       "  hadal bench model.gguf -p 512 -n 128 -d 0,4096 -b 1,8 -r 5\n",
       Bench},
  };
  return commands;
}

int Main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App root("Hadal runs DeepSeek-family language models: loads, measures and explains them.",
                "hadal");
  root.set_version_flag("--version", std::string("hadal ") + HADAL_VERSION);
  root.require_subcommand(1);
  std::deque<Parsed> commands;
  for (const Command& command : Commands()) {
    Bind(root, commands.emplace_back(Parsed{&command, nullptr, {}, {}}));
  }
  try {
    root.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return root.exit(error) == 0 ? 0 : 2;
  }
  for (const Parsed& parsed : commands) {
    if (parsed.app->parsed()) return Run(parsed);
  }
  return 2;
}

}  // namespace hadal::cli
