#include <fmt/core.h>

#include <map>

#include "base/cpu_features.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/machine_report.h"
#include "cli/output.h"
#include "cli/session.h"
#include "formats/checkpoint.h"
#include "quant/panel.h"
#include "spec/kv_layout.h"
#include "spec/rope_table.h"
#include "tokenizer/tokenizer.h"

namespace hadal::cli {
namespace {

struct TypeTotals {
  uint64_t tensors = 0, parameters = 0, file_bytes = 0, packed_bytes = 0;
};

struct Facts {
  std::map<std::string, TypeTotals> types;
  TypeTotals all;
  std::string pack_cache;  // file with the packed weights; empty: none
  std::vector<std::string> warnings;
};

Facts Measure(const Checkpoint& checkpoint) {
  Facts facts;
  for (const Checkpoint::Entry& entry : checkpoint.tensors()) {
    const TensorView& view = entry.view;
    const uint64_t packed =
        view.shape.size() < 2
            ? view.elements() * sizeof(float)
            : PanelBytes(view.rows(), view.cols(), ChooseFormat(view, WeightPolicy::kAsStored));
    for (TypeTotals* totals : {&facts.types[std::string(Name(view.dtype))], &facts.all}) {
      ++totals->tensors;
      totals->parameters += view.elements();
      totals->file_bytes += view.file_bytes();
      totals->packed_bytes += packed;
    }
  }
  return facts;
}

// Of the weights as stored, on the CPU.
std::string KeptFile(const Checkpoint& checkpoint) {
  const PackCacheOptions options = {.folder = PackCacheFolder()};
  const PackCache cache(options, checkpoint, *MakeCpuBackend(1), WeightPolicy::kAsStored);
  const std::unique_ptr<BlobReader> kept = cache.Open();
  return kept == nullptr ? std::string() : kept->path().string();
}

// How far the RoPE plan reaches; 0 when nothing is known. LongRoPE's divisors need no factor.
double RopeReach(const RopeSpec& rope) {
  if (rope.scaling == RopeScaling::kLongRope) return 0;
  return static_cast<double>(rope.original_context) * rope.factor;
}

std::vector<std::string> Warnings(const ModelSpec& spec, const Vocabulary& vocabulary,
                                  const Tokenizer& tokenizer) {
  std::vector<std::string> warnings = spec.notes;
  const double reach = RopeReach(spec.rope);
  if (spec.rope.scaling != RopeScaling::kNone && reach != 0 &&
      static_cast<double>(spec.max_context) > reach) {
    warnings.push_back(fmt::format(
        "the file claims a context of {} tokens, but its RoPE scaling reaches {} ({} x {})",
        spec.max_context, reach, spec.rope.original_context, spec.rope.factor));
  }
  if (static_cast<uint64_t>(tokenizer.vocab_size()) > spec.vocab) {
    warnings.push_back(fmt::format("the tokenizer has {} tokens, the model only {}",
                                   tokenizer.vocab_size(), spec.vocab));
  }
  if (spec.eos_ids.empty()) {
    warnings.push_back("no end-of-sequence token: generation stops only at its limits");
  }
  if (vocabulary.chat_template.empty()) warnings.push_back("no chat template: use --raw");
  return warnings;
}

OrderedJson AttentionJson(const ModelSpec& spec) {
  const AttentionSpec& attention = spec.attention;
  OrderedJson json = {{"kind", attention.kind == AttentionKind::kMla ? "mla" : "gqa"},
                      {"heads", attention.n_heads},
                      {"kv_heads", attention.n_kv_heads},
                      {"head_dim", attention.head_dim},
                      {"softmax_scale", attention.softmax_scale},
                      {"qk_norm", attention.qk_norm}};
  if (attention.kind == AttentionKind::kMla) {
    json["q_lora_rank"] = attention.q_lora_rank;
    json["kv_lora_rank"] = attention.kv_lora_rank;
    json["qk_nope_head_dim"] = attention.qk_nope_head_dim;
    json["qk_rope_head_dim"] = attention.qk_rope_head_dim;
    json["v_head_dim"] = attention.v_head_dim;
  }
  return json;
}

OrderedJson MoeJson(const MoeSpec& moe) {
  constexpr const char* kGroupScores[] = {"none", "max", "top_two_sum"};
  return {{"experts", moe.n_experts},
          {"used", moe.n_used},
          {"intermediate", moe.intermediate},
          {"shared_intermediate", moe.shared_intermediate},
          {"scoring", moe.scoring == MoeScoring::kSigmoid ? "sigmoid" : "softmax"},
          {"group_score", kGroupScores[static_cast<int>(moe.group_score)]},
          {"groups", moe.n_groups},
          {"groups_used", moe.n_groups_used},
          {"choice_bias", moe.choice_bias},
          {"normalize", moe.normalize},
          {"weight_scale", moe.weight_scale}};
}

OrderedJson ToJson(const Checkpoint& checkpoint, const Facts& facts, const Tokenizer& tokenizer) {
  const ModelSpec& spec = checkpoint.spec();
  OrderedJson json;
  json["format"] = checkpoint.format();
  json["file_bytes"] = checkpoint.file_bytes();
  json["architecture"] = spec.architecture;
  json["name"] = spec.name;
  json["parameters"] = facts.all.parameters;
  json["hidden"] = spec.hidden;
  json["layers"] = spec.n_layers;
  json["intermediate"] = spec.intermediate;
  json["vocab"] = spec.vocab;
  json["tied_embeddings"] = spec.tied_embeddings;
  json["context"] = spec.max_context;
  json["attention"] = AttentionJson(spec);
  uint64_t windowed = 0;
  for (const LayerSpec& layer : spec.layers) windowed += layer.window != 0;
  json["windowed_layers"] = windowed;
  if (spec.moe) json["moe"] = MoeJson(*spec.moe);
  const RopeTable rope(spec.rope);
  json["rope"] = {{"description", rope.Describe()},
                  {"theta", spec.rope.theta},
                  {"dim", spec.rope.dim},
                  {"factor", spec.rope.factor},
                  {"original_context", spec.rope.original_context},
                  {"attention_scaling", rope.attention_scaling()},
                  {"softmax_correction", rope.softmax_correction()}};
  for (const KvType& type : kKvTypes) {
    json["kv_bytes_per_token"][std::string(type.name)] =
        MakeKvLayout(spec, type.dtype, kTileTokens).bytes_per_token();
  }
  for (const auto& [name, totals] : facts.types) {
    json["types"][name] = {{"tensors", totals.tensors},
                           {"parameters", totals.parameters},
                           {"file_bytes", totals.file_bytes},
                           {"packed_bytes", totals.packed_bytes}};
  }
  json["packed_bytes"] = facts.all.packed_bytes;
  json["pack_cache"] = facts.pack_cache.empty() ? OrderedJson() : OrderedJson(facts.pack_cache);
  json["tokenizer"] = {
      {"kind", tokenizer.facts().kind},     {"pre_tokenizer", tokenizer.facts().pre_tokenizer},
      {"tokens", tokenizer.facts().tokens}, {"merges", tokenizer.facts().merges},
      {"added", tokenizer.facts().added},   {"special", tokenizer.facts().special},
      {"bos_id", tokenizer.bos_id()},       {"eos_ids", spec.eos_ids},
      {"adds_bos", tokenizer.adds_bos()}};
  json["chat_template"] = checkpoint.vocabulary().chat_template;
  json["warnings"] = facts.warnings;
  return json;
}

std::string Size(uint64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  if (mib < 1) return fmt::format("{:.1f} KiB", mib * 1024);
  return mib >= 1024 ? fmt::format("{:.2f} GiB", mib / 1024) : fmt::format("{:.1f} MiB", mib);
}

void PrintAttention(const ModelSpec& spec) {
  const AttentionSpec& a = spec.attention;
  if (a.kind == AttentionKind::kMla) {
    fmt::print("attention      MLA, {} heads, latent {} + rope {}, nope {}, v {}, q_lora {}\n",
               a.n_heads, a.kv_lora_rank, a.qk_rope_head_dim, a.qk_nope_head_dim, a.v_head_dim,
               a.q_lora_rank);
  } else {
    fmt::print("attention      {} heads, {} KV heads, head_dim {}{}\n", a.n_heads, a.n_kv_heads,
               a.head_dim, a.qk_norm ? ", q and k normalised" : "");
  }
  fmt::print("softmax scale  {:.6g}\n", a.softmax_scale);
}

void PrintMoe(const MoeSpec& moe, const ModelSpec& spec) {
  uint64_t layers = 0;
  for (const LayerSpec& layer : spec.layers) layers += layer.moe;
  fmt::print("experts        {} of {} per token in {} layers, width {}, shared width {}, {} scores",
             moe.n_used, moe.n_experts, layers, moe.intermediate, moe.shared_intermediate,
             moe.scoring == MoeScoring::kSigmoid ? "sigmoid" : "softmax");
  if (moe.n_groups > 1) fmt::print(", {} of {} groups", moe.n_groups_used, moe.n_groups);
  fmt::print(", factor {}\n", moe.weight_scale);
}

// "f32 61440, int8 16320, ..."
std::string OtherKvTypes(const ModelSpec& spec) {
  std::string text;
  for (const KvType& type : kKvTypes) {
    if (type.dtype == DType::kBF16) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", type.name,
                        MakeKvLayout(spec, type.dtype, kTileTokens).bytes_per_token());
  }
  return text;
}

void PrintText(const Checkpoint& checkpoint, const Facts& facts, const Tokenizer& tokenizer) {
  const ModelSpec& spec = checkpoint.spec();
  fmt::print("{} ({}, {}, {} in {} file{})\n", spec.name.empty() ? "unnamed" : Printable(spec.name),
             spec.architecture, checkpoint.format(), Size(checkpoint.file_bytes()),
             checkpoint.files().size(), checkpoint.files().size() == 1 ? "" : "s");
  fmt::print("parameters     {:.1f} M\n", static_cast<double>(facts.all.parameters) / 1e6);
  fmt::print("shape          {} layers, hidden {}, feed-forward {}, vocabulary {}{}\n",
             spec.n_layers, spec.hidden, spec.intermediate, spec.vocab,
             spec.tied_embeddings ? " (tied)" : "");
  PrintAttention(spec);
  if (spec.moe) PrintMoe(*spec.moe, spec);
  fmt::print("context        {} tokens\n", spec.max_context);
  fmt::print("rope           {}\n", RopeTable(spec.rope).Describe());
  const KvLayout kv = MakeKvLayout(spec, DType::kBF16, kTileTokens);
  fmt::print("KV cache       {} bytes per token in bf16, {} for the whole context; {}\n",
             kv.bytes_per_token(), Size(kv.bytes_per_token() * spec.max_context),
             OtherKvTypes(spec));
  for (const KvGroup& group : kv.groups) {
    if (group.window != 0) {
      fmt::print("window         {} tokens in {} layers\n", group.window, group.layers.size());
    }
  }
  for (const auto& [name, totals] : facts.types) {
    fmt::print("{:<14} {} tensors, {} in the file, {} packed\n", name, totals.tensors,
               Size(totals.file_bytes), Size(totals.packed_bytes));
  }
  if (!facts.pack_cache.empty()) {
    fmt::print("packed copy    {}\n", Printable(facts.pack_cache));
  }
  const TokenizerFacts& tokens = tokenizer.facts();
  fmt::print("tokenizer      {} ({}), {} tokens, {} merges, {} added of which {} special\n",
             tokens.kind, tokens.pre_tokenizer, tokens.tokens, tokens.merges, tokens.added,
             tokens.special);
  const size_t template_size = checkpoint.vocabulary().chat_template.size();
  fmt::print("chat template  {}\n",
             template_size == 0 ? "none" : fmt::format("{} bytes", template_size));
  for (const std::string& warning : facts.warnings) {
    fmt::print("note           {}\n", Printable(warning));
  }
}

}  // namespace

int Inspect(const Arguments& arguments) {
  const OptionValues& options = arguments.options;
  if (options.Flag("machine")) {
    if (!arguments.positional[0].empty()) Fail(ErrorKind::kUsage, "--machine takes no MODEL");
    InspectMachine(options);
    return 0;
  }
  if (arguments.positional[0].empty()) Fail(ErrorKind::kUsage, "MODEL or --machine is needed");
  for (const char* key : {"threads", "pin"}) {
    if (options.Given(key)) Fail(ErrorKind::kUsage, "--{} goes with --machine", key);
  }
  const Checkpoint checkpoint = Checkpoint::Open(arguments.positional[0]);
  const Tokenizer tokenizer = Tokenizer::Create(checkpoint.vocabulary());
  Facts facts = Measure(checkpoint);
  facts.pack_cache = KeptFile(checkpoint);
  facts.warnings = Warnings(checkpoint.spec(), checkpoint.vocabulary(), tokenizer);
  if (options.Flag("json")) {
    fmt::print("{}\n", ToJson(checkpoint, facts, tokenizer).dump(2));
  } else {
    PrintText(checkpoint, facts, tokenizer);
  }
  return 0;
}

}  // namespace hadal::cli
