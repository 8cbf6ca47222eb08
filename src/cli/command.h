// One file per command. A command gets its positional arguments and checked options and returns an
// exit code; errors leave it as Error and are turned into words and exit codes by main.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/options.h"

namespace hadal::cli {

struct Arguments {
  std::vector<std::string> positional;  // in the order of Command::positionals
  OptionValues options;
};

struct Command {
  std::string_view name;
  std::string_view summary;
  std::vector<std::string_view> positionals;  // "MODEL"; a trailing '?' makes one optional
  std::string_view examples;                  // shown under --help
  int (*run)(const Arguments& arguments);
};

int Generate(const Arguments& arguments);
int Chat(const Arguments& arguments);
int Inspect(const Arguments& arguments);
int Tokenize(const Arguments& arguments);
int Logits(const Arguments& arguments);
int Eval(const Arguments& arguments);
int Quantize(const Arguments& arguments);
int Bench(const Arguments& arguments);
int BenchServe(const Arguments& arguments);
int Serve(const Arguments& arguments);
int Plan(const Arguments& arguments);

std::span<const Command> Commands();

// Parses argv, runs the command and reports its errors on stderr.
// Returns 0 done, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C.
int Main(int argc, char** argv);

}  // namespace hadal::cli
