#include "cli/memory_options.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>

#include "base/check.h"
#include "base/error.h"
#include "cli/session.h"
#include "model/model.h"

namespace hadal::cli {
namespace {

// Of a command that runs once and ends.
constexpr double kUtilization = 0.95;

bool Has(const OptionValues& options, const char* key) {
  return options.FindOption(key) != nullptr;
}

std::optional<uint64_t> GivenBytes(const OptionValues& options, const char* key) {
  if (!Has(options, key) || !options.Given(key)) return std::nullopt;
  return static_cast<uint64_t>(options.Integer(key));
}

DType ChooseKvType(const OptionValues& options) {
  const std::string name = options.Text("kv-dtype");
  const auto* type = std::find_if(std::begin(kKvTypes), std::end(kKvTypes),
                                  [&name](const KvType& t) { return t.name == name; });
  HADAL_CHECK(type != std::end(kKvTypes));  // the option table lists the same names
  return type->dtype;
}

// Rows of logits for drafts: of four sequences, as drafts pay where few run at a time.
uint32_t DraftRows(const SpeculationOptions& options, uint32_t max_sequences) {
  constexpr uint32_t kDrafting = 4;
  if (options.speculation == Speculation::kOff) return 0;
  return options.max_draft * std::min(max_sequences, kDrafting);
}

StepLimits ChooseLimits(const OptionValues& options, const MemoryNeeds& needs) {
  StepLimits limits;
  limits.max_sequences = needs.max_sequences;
  limits.max_tokens =
      std::max(static_cast<uint32_t>(options.Integer("chunk")), needs.max_sequences);
  limits.max_logit_rows = std::max(needs.max_logit_rows, needs.max_sequences) +
                          DraftRows(ChooseSpeculation(options), needs.max_sequences);
  return limits;
}

// Asking again for the same policy costs nothing: a search asks often.
std::function<uint64_t(WeightPolicy)> WeightBytesOf(const Checkpoint& checkpoint,
                                                    const Backend& backend) {
  auto known = std::make_shared<std::map<WeightPolicy, uint64_t>>();
  return [&checkpoint, &backend, known](WeightPolicy policy) {
    const auto found = known->find(policy);
    if (found != known->end()) return found->second;
    return (*known)[policy] = PlanWeightBytes(checkpoint, backend, policy);
  };
}

}  // namespace

WeightPolicy ChoosePolicy(const OptionValues& options) {
  const std::string dtype = options.Text("dtype");
  const std::string weights = options.Text("weights");
  if (dtype != "auto" && weights != "as-stored") {
    Fail(ErrorKind::kUsage, "--dtype {} and --weights {} contradict each other", dtype, weights);
  }
  if (dtype == "f32") return WeightPolicy::kF32;
  if (dtype == "bf16") return WeightPolicy::kBf16;
  if (weights == "q8") return WeightPolicy::kQ8;
  if (weights == "q4") return WeightPolicy::kQ4;
  return WeightPolicy::kAsStored;
}

SpeculationOptions ChooseSpeculation(const OptionValues& options) {
  SpeculationOptions chosen;
  if (!Has(options, "speculate")) return chosen;
  const std::string name = options.Text("speculate");
  if (name == "off") return chosen;
  chosen.speculation = name == "always" ? Speculation::kAlways : Speculation::kAuto;
  chosen.max_draft = static_cast<uint32_t>(options.Integer("draft-max"));
  return chosen;
}

MemoryNeeds ServingNeeds(const OptionValues& options, uint64_t tokenizer_bytes) {
  return {.max_sequences = static_cast<uint32_t>(options.Integer("max-num-seqs")),
          .shared_pool = true,
          .tokenizer_bytes = tokenizer_bytes};
}

MemoryModel ModelOf(const Checkpoint& checkpoint, const Backend& backend,
                    const OptionValues& options, const MemoryNeeds& needs) {
  const ModelSpec& spec = checkpoint.spec();
  auto threads = static_cast<uint32_t>(ThreadCount(options));
  if (Has(options, "io-threads")) threads += static_cast<uint32_t>(options.Integer("io-threads"));
  return {.spec = &spec,
          .backend = &backend,
          .weight_bytes = WeightBytesOf(checkpoint, backend),
          .activation_bytes =
              [&spec](const StepLimits& limits) { return Model::ActivationBytes(spec, limits); },
          .tokenizer_bytes = needs.tokenizer_bytes,
          .n_threads = threads};
}

MemoryWish WishOf(const ModelSpec& spec, const OptionValues& options, const MemoryNeeds& needs) {
  MemoryWish wish;
  wish.choice.weights = ChoosePolicy(options);
  wish.choice.kv_dtype = ChooseKvType(options);
  wish.choice.block_size = static_cast<uint32_t>(options.Integer("block-size"));
  wish.choice.limits = ChooseLimits(options, needs);
  wish.choice.swap_bytes = GivenBytes(options, "swap-space").value_or(0);
  wish.kv_bytes = GivenBytes(options, "kv-memory");
  if (options.Given("ctx")) {
    wish.context = static_cast<uint64_t>(options.Integer("ctx"));
  } else if (needs.context != 0) {
    wish.context = needs.context;
  }
  wish.model_context = spec.max_context;
  wish.all_at_once = !needs.shared_pool;
  if (needs.shared_pool) {
    wish.names = {"--max-model-len", "--max-num-seqs", "--max-num-batched-tokens"};
  } else {
    wish.default_context = 8192;  // enough for a conversation; more is asked for
  }
  return wish;
}

MemoryBudget BudgetOf(const OptionValues& options, bool hypothetical) {
  const std::optional<uint64_t> given = GivenBytes(options, "memory");
  const AvailableMemory available = ReadAvailableMemory();
  if (!given) {
    const bool asked = Has(options, "memory-utilization");
    return hadal::BudgetOf(available, asked ? options.Number("memory-utilization") : kUtilization);
  }
  if (options.Given("memory-utilization")) {
    Fail(ErrorKind::kUsage, "--memory and --memory-utilization contradict each other");
  }
  const uint64_t most = available.bytes + AnonymousBytes();
  if (!hypothetical && *given > most) {
    Fail(ErrorKind::kResource, "--memory {} is more than the {} that {} has left",
         FormatBytes(*given), FormatBytes(most), available.limited_by);
  }
  return {*given, "--memory"};
}

}  // namespace hadal::cli
