// `plan`: what `serve` with the same options would allocate. Reads headers, never weights.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/memory_options.h"
#include "cli/output.h"
#include "cli/session.h"

namespace hadal::cli {
namespace {

struct Outcome {
  FittedMemory memory;  // what fits, or the least that is needed
  MemoryBudget budget;
  std::string refusal;  // empty: it fits
  std::string nearest;  // of a refusal
  std::vector<std::string> notes;
};

// The tokenizer is built, as its tables are what is to be counted; a folder may be without one.
uint64_t TokenizerBytes(Checkpoint& checkpoint, std::vector<std::string>& notes) {
  const Vocabulary vocabulary = checkpoint.TakeVocabulary();
  if (vocabulary.tokenizer_json.empty() && vocabulary.tokens.empty()) {
    notes.push_back("the model has no tokenizer, which is counted as nothing");
    return 0;
  }
  return Tokenizer::Create(vocabulary).bytes();
}

Outcome Decide(Checkpoint& checkpoint, const OptionValues& options) {
  Outcome outcome;
  if (!checkpoint.missing().empty()) {
    outcome.notes.push_back(fmt::format("not there: {}", checkpoint.missing()));
  }
  const std::unique_ptr<Backend> backend = MakeBackend(options);
  const MemoryNeeds needs = ServingNeeds(options, TokenizerBytes(checkpoint, outcome.notes));
  const MemoryModel model = ModelOf(checkpoint, *backend, options, needs);
  const MemoryWish wish = WishOf(checkpoint.spec(), options, needs);
  outcome.budget = BudgetOf(options, /*hypothetical=*/true);
  try {
    outcome.memory = FitMemory(model, wish, outcome.budget);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kResource) throw;
    outcome.refusal = error.message();
    outcome.nearest = NearestFits(model, wish, outcome.budget);
    outcome.memory = LeastMemory(model, wish);
  }
  const FittedMemory& memory = outcome.memory;
  if (outcome.refusal.empty() && memory.wanted_context > memory.choice.limits.max_context) {
    outcome.notes.push_back(fmt::format("the model's context of {} tokens does not fit; {} does",
                                        memory.wanted_context, memory.choice.limits.max_context));
  }
  return outcome;
}

// Lengths worth a line: powers of four up to the context, and that.
std::vector<uint64_t> Lengths(uint64_t context) {
  std::vector<uint64_t> lengths;
  for (uint64_t n = 512; n < context; n *= 4) lengths.push_back(n);
  lengths.push_back(context);
  return lengths;
}

uint64_t Running(const FittedMemory& memory, uint64_t tokens) {
  return std::min<uint64_t>(memory.Sequences(tokens), memory.choice.limits.max_sequences);
}

OrderedJson ToJson(const Checkpoint& checkpoint, const Outcome& outcome,
                   const OptionValues& options) {
  const FittedMemory& memory = outcome.memory;
  const StepLimits& limits = memory.choice.limits;
  OrderedJson json;
  json["model"] = checkpoint.spec().name;
  json["architecture"] = checkpoint.spec().architecture;
  json["format"] = checkpoint.format();
  json["fits"] = outcome.refusal.empty();
  if (!outcome.refusal.empty()) {
    json["refusal"] = outcome.refusal;
    json["nearest"] = outcome.nearest;
  }
  json["budget_bytes"] = outcome.budget.bytes;
  json["budget"] = outcome.budget.whence;
  for (const MemoryCategory category : kAllMemoryCategories) {
    json["bytes"][std::string(Name(category))] = memory.bytes[category];
  }
  json["total_bytes"] = memory.bytes.total();
  json["max_model_len"] = limits.max_context;
  json["model_context"] = checkpoint.spec().max_context;
  json["max_num_seqs"] = limits.max_sequences;
  json["max_num_batched_tokens"] = limits.max_tokens;
  json["threads"] = ThreadCount(options);
  OrderedJson& kv = json["kv"];
  kv["dtype"] = options.Text("kv-dtype");
  kv["bytes_per_token"] = memory.layout.bytes_per_token();
  kv["block_size"] = memory.layout.block_size;
  for (size_t g = 0; g < memory.pages.size(); ++g) {
    const KvGroup& group = memory.layout.groups[g];
    kv["groups"].push_back({{"window", group.window},
                            {"layers", group.layers.size()},
                            {"page_bytes", group.page_bytes},
                            {"pages", memory.pages[g]}});
  }
  json["sequences"] = OrderedJson::array();
  for (const uint64_t tokens : Lengths(limits.max_context)) {
    json["sequences"].push_back(
        {{"tokens", tokens}, {"fit", memory.Sequences(tokens)}, {"run", Running(memory, tokens)}});
  }
  json["notes"] = outcome.notes;
  return json;
}

void PrintPool(const FittedMemory& memory) {
  for (size_t g = 0; g < memory.pages.size(); ++g) {
    const KvGroup& group = memory.layout.groups[g];
    fmt::print("pages         {} of {} tokens, {} each{}\n", memory.pages[g],
               memory.layout.block_size, FormatBytes(group.page_bytes),
               group.window == 0 ? ""
                                 : fmt::format(", for {} layers with a window of {}",
                                               group.layers.size(), group.window));
  }
  fmt::print("{:>13} {:>12} {:>12}\n", "text of", "fit at once", "run at once");
  for (const uint64_t tokens : Lengths(memory.choice.limits.max_context)) {
    fmt::print("{:>6} tokens {:>12} {:>12}\n", tokens, memory.Sequences(tokens),
               Running(memory, tokens));
  }
}

void PrintText(const Checkpoint& checkpoint, const Outcome& outcome, const OptionValues& options) {
  const FittedMemory& memory = outcome.memory;
  const ModelSpec& spec = checkpoint.spec();
  fmt::print("{} ({}, {})\n", spec.name.empty() ? "unnamed" : Printable(spec.name),
             spec.architecture, checkpoint.format());
  for (const MemoryCategory category : kAllMemoryCategories) {
    const uint64_t bytes = memory.bytes[category];
    if (category == MemoryCategory::kSwap) {
      fmt::print("{:<12} {:>16} {:>12}\n", "together", memory.bytes.total(),
                 FormatBytes(memory.bytes.total()));
      if (bytes == 0) continue;
    }
    fmt::print("{:<12} {:>16} {:>12}{}\n", Name(category), bytes, FormatBytes(bytes),
               category == MemoryCategory::kSwap ? "  on disk" : "");
  }
  fmt::print("KV            {} bytes per token in {}\n", memory.layout.bytes_per_token(),
             options.Text("kv-dtype"));
  fmt::print("context       {} tokens, of the model's {}\n", memory.choice.limits.max_context,
             spec.max_context);
  if (outcome.refusal.empty()) PrintPool(memory);
  for (const std::string& note : outcome.notes) fmt::print("note          {}\n", note);
  if (outcome.refusal.empty()) {
    fmt::print("it fits: {} are there ({}), {} stay free\n", FormatBytes(outcome.budget.bytes),
               outcome.budget.whence, FormatBytes(outcome.budget.bytes - memory.bytes.total()));
  }
}

}  // namespace

int Plan(const Arguments& arguments) {
  const OptionValues& options = arguments.options;
  Checkpoint checkpoint = Checkpoint::OpenForPlanning(arguments.positional[0]);
  const Outcome outcome = Decide(checkpoint, options);
  if (options.Flag("json")) {
    fmt::print("{}\n", ToJson(checkpoint, outcome, options).dump(2));
  } else {
    PrintText(checkpoint, outcome, options);
  }
  if (outcome.refusal.empty()) return 0;
  fmt::print(stderr, "hadal plan: {}\n", outcome.refusal);
  return 1;
}

}  // namespace hadal::cli
