#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <deque>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>

#include "base/error.h"
#include "cli/command.h"
#include "cli/output.h"
#include "config/config_file.h"

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
  if (arguments.options.Given("config")) {
    ApplyConfigFile(arguments.options.Text("config"), arguments.options);
  }
  return arguments;
}

void Complain(std::string_view command, std::string_view message) {
  fmt::print(stderr, "hadal{}{}: {}\n", command.empty() ? "" : " ", command,
             Shortened(Printable(message)));
}

int Run(const Parsed& parsed) {
  const std::string_view name = parsed.command->name;
  int code = 1;
  try {
    code = parsed.command->run(Collect(parsed));
  } catch (const Error& error) {
    Complain(name, error.message());
    if (error.kind() == ErrorKind::kUsage) return 2;
    return error.kind() == ErrorKind::kCancelled ? 130 : 1;
  } catch (const std::bad_alloc&) {
    Complain(name, "out of memory; try a smaller --ctx");
    return 1;
  } catch (const std::filesystem::filesystem_error& error) {
    Complain(name, fmt::format("{}: {}", error.path1().string(), error.code().message()));
    return 1;
  } catch (const std::exception& error) {
    // fmt throws when standard output cannot be written; FinishOutput says that better.
    if (std::ferror(stdout) == 0) {
      Complain(name, fmt::format("unexpected failure, please report: {}", error.what()));
      return 1;
    }
  }
  return FinishOutput(name, code);
}

// CLI11's own words miss the command and, for an unknown one, the name.
int ComplainUsage(const CLI::App& root, const CLI::ParseError& error, int argc, char** argv) {
  const CLI::App* used = nullptr;
  for (const CLI::App* app : root.get_subcommands()) used = app;
  std::string message = error.what();
  if (used == nullptr) {
    message = argc < 2 ? "no command given"
                       : fmt::format("'{}' is not a command", std::string_view(argv[1]));
  } else if (error.get_name() == "ArgumentMismatch") {
    message = message.substr(0, message.find(':')) + ": a value is missing";
  }
  Complain(used == nullptr ? "" : used->get_name(),
           fmt::format("{}; see hadal {}{}--help", message, used == nullptr ? "" : used->get_name(),
                       used == nullptr ? "" : " "));
  return 2;
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
      {"serve",
       "Serve a model over HTTP, as OpenAI's and DeepSeek's clients expect it",
       {"MODEL?"},
       "  hadal serve model.gguf\n"
       "  hadal serve folder/ --host 0.0.0.0 --port 8000 --api-key-file keys.txt\n"
       "  hadal serve --config hadal.yaml\n",
       Serve},
      {"plan",
       "Say what a model will take of memory, before anything is loaded",
       {"MODEL"},
       "  hadal plan model.gguf\n"
       "  hadal plan folder/ --memory 16g --kv-dtype int8 --max-model-len 32k\n"
       "  hadal plan model.gguf --max-num-seqs 64 --json\n",
       Plan},
      {"inspect",
       "Say what a model file holds and what is odd about it, or what the machine is like",
       {"MODEL?"},
       "  hadal inspect model.gguf\n  hadal inspect folder/ --json\n  hadal inspect --machine\n",
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
      {"bench-serve",
       "`bench serve`: load a server that speaks OpenAI's API and measure its answers",
       {"URL"},
       "  hadal bench serve http://127.0.0.1:8000 --request-rate 8 --num-prompts 200\n"
       "  hadal bench serve http://127.0.0.1:8000 --max-concurrency 32 --input-len "
       "lognormal:32-1024\n"
       "  hadal bench serve http://127.0.0.1:8000 --trace trace.jsonl --json result.json\n",
       BenchServe},
  };
  return commands;
}

int Main(int argc, char** argv) {
  OpenStandardStreams();
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App root("Hadal runs DeepSeek-family language models: loads, measures and explains them.",
                "hadal");
  root.set_version_flag("--version", std::string("hadal ") + HADAL_VERSION);
  root.require_subcommand(1);
  std::deque<Parsed> commands;
  for (const Command& command : Commands()) {
    Bind(root, commands.emplace_back(Parsed{&command, nullptr, {}, {}}));
  }
  std::vector<char*> words(argv, argv + argc);
  std::string bench_serve = "bench-serve";
  // A model named "serve" is reached as ./serve.
  if (argc > 2 && std::string_view(argv[1]) == "bench" && std::string_view(argv[2]) == "serve") {
    words.erase(words.begin() + 1);
    words[1] = bench_serve.data();
  }
  try {
    root.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return ComplainUsage(root, error, argc, argv);
    root.exit(error);
    std::cout.flush();
    return FinishOutput("", std::cout.good() ? 0 : 1);
  }
  for (const Parsed& parsed : commands) {
    if (parsed.app->parsed()) return Run(parsed);
  }
  return 2;
}

}  // namespace hadal::cli
