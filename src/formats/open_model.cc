#include "formats/open_model.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "formats/archs/arch.h"
#include "formats/gguf.h"
#include "formats/hf_folder.h"
#include "formats/quant_parts.h"
#include "formats/tensor_plan.h"

namespace hadal {
namespace {

std::vector<Checkpoint::Entry> ToEntries(std::vector<ResolvedTensor> tensors) {
  std::vector<Checkpoint::Entry> entries;
  entries.reserve(tensors.size());
  for (ResolvedTensor& tensor : tensors) {
    entries.push_back({std::move(tensor.name), std::move(tensor.view)});
  }
  return entries;
}

// The number after `prefix` in `name`, or -1.
int64_t LayerOf(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return -1;
  int64_t layer = -1;
  for (size_t i = prefix.size(); i < name.size() && i < prefix.size() + 9; ++i) {
    if (std::isdigit(static_cast<unsigned char>(name[i])) == 0) break;
    layer = (layer < 0 ? 0 : layer) * 10 + (name[i] - '0');
  }
  return layer;
}

bool IsMtp(const ModelDescription& model, std::string_view name, std::string_view prefix) {
  const int64_t layer = LayerOf(name, prefix);
  return layer >= int64_t{model.spec.n_layers} &&
         layer < int64_t{model.spec.n_layers} + model.mtp_layers;
}

void NoteMtp(ModelDescription& model) {
  if (model.mtp_layers == 0) return;
  model.spec.notes.push_back(fmt::format(
      "{} multi-token-prediction layer(s) after layer {} are left out; plain decoding does not use "
      "them.",
      model.mtp_layers, model.spec.n_layers));
}

void CheckTokenIds(const ModelSpec& spec, const std::string& source) {
  const auto check = [&](int32_t id, const char* what) {
    if (id >= 0 && static_cast<uint32_t>(id) >= spec.vocab) {
      Fail(ErrorKind::kBadFile, "{}: the {} token {} is outside the vocabulary of {}", source, what,
           id, spec.vocab);
    }
  };
  check(spec.bos_id, "begin");
  for (const int32_t id : spec.eos_ids) check(id, "end");
}

void ReadGeneration(const ConfigReader& config, const ConfigReader& generation, ModelSpec& spec) {
  const auto ids = [&](std::string_view field) {
    auto found = generation.TokenIds(field);
    return found.empty() ? config.TokenIds(field) : found;
  };
  const std::vector<int32_t> bos = ids("bos_token_id");
  spec.bos_id = bos.empty() ? -1 : bos[0];
  spec.eos_ids = ids("eos_token_id");
  const auto number = [&](std::string_view field) -> std::optional<float> {
    const auto value = generation.OptionalNumber(field);
    return value ? std::optional<float>(static_cast<float>(*value)) : std::nullopt;
  };
  spec.sampling.temperature = number("temperature");
  spec.sampling.top_p = number("top_p");
  spec.sampling.repetition_penalty = number("repetition_penalty");
  spec.sampling.do_sample = generation.OptionalFlag("do_sample");
  if (const auto top_k = generation.OptionalCount("top_k")) {
    spec.sampling.top_k = static_cast<int32_t>(*top_k);
  }
}

DType TypeOfConfig(const ConfigReader& config) {
  const auto name = config.OptionalText("torch_dtype");
  const std::string type = name ? *name : config.OptionalText("dtype").value_or("bfloat16");
  if (type == "bfloat16") return DType::kBF16;
  if (type == "float16") return DType::kF16;
  if (type == "float32") return DType::kF32;
  config.Unsupported("torch_dtype", "is '{}'; without the weights, their type cannot be told",
                     type);
}

// The tensors that such a model must hold, without data and of the type the configuration states.
std::vector<Checkpoint::Entry> TensorsOfConfig(const ModelDescription& model,
                                               const ConfigReader& config) {
  const DType type = TypeOfConfig(config);
  const auto quantization = config.OptionalObject("quantization_config");
  if (quantization) quantization->Expect("quant_method", "fp8", "fetch the weights' headers too");
  std::vector<Checkpoint::Entry> entries;
  VisitTensors(model, [&](const PlannedTensor& planned) {
    if (planned.optional) return;
    if (entries.size() == kMaxTensors) config.Bad("num_hidden_layers", "makes too many tensors");
    TensorView view;
    view.name = planned.Name();
    view.shape = planned.shape;
    view.dtype = type;
    const bool outer = planned.canonical == "embed" || planned.canonical == "head";
    if (quantization && planned.matrix && !outer) {
      view.dtype = DType::kF8E4M3;
      view.scale_block = 128;
    }
    entries.push_back({view.name, std::move(view)});
  });
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

// What a file holds bounds its dimensions; without it they may be made up, and sums of them wrap.
void CheckSizes(const std::vector<Checkpoint::Entry>& tensors, const std::string& source) {
  constexpr uint64_t kMaxElements = uint64_t{1} << 36;
  for (const Checkpoint::Entry& tensor : tensors) {
    if (tensor.view.elements() <= kMaxElements) continue;
    Fail(ErrorKind::kBadFile, "{}: tensor '{}' would have {} elements; no model is that large",
         source, tensor.name, tensor.view.elements());
  }
}

// eos, and the tokens that end a turn or a message where the file names them.
std::vector<int32_t> GgufEosIds(const GgufContents& contents, int32_t eos) {
  std::vector<int32_t> ids;
  if (eos >= 0) ids.push_back(eos);
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    const GgufValue* value = contents.Find(key);
    const Json json = value == nullptr ? Json() : value->ToJson();
    if (!json.is_number_integer() || json.get<int64_t>() < 0 || json.get<int64_t>() > 0x7FFFFFFF) {
      continue;
    }
    const auto id = json.get<int32_t>();
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

}  // namespace

void OpenedModel::SetFiles(std::vector<MappedFile> mapped) {
  files = std::move(mapped);
  for (const MappedFile& file : files) {
    file_bytes += file.bytes().size();
    paths.push_back(file.path());
  }
}

void OpenHfModel(const std::filesystem::path& path, MissingData missing, OpenedModel& out) {
  HfFolder folder = OpenHfFolder(path, missing);
  const std::string source = folder.config_source();
  const ConfigReader config(folder.config, source);
  const Architecture& architecture = FindHfArchitecture(config.Text("model_type"), source);
  ModelDescription model = architecture.from_hf(config);
  ModelSpec& spec = model.spec;
  spec.architecture = architecture.name;
  spec.name = std::filesystem::weakly_canonical(path).filename().string();
  ReadGeneration(config, ConfigReader(folder.generation_config, folder.generation_source()), spec);
  CheckTokenIds(spec, source);
  NoteMtp(model);
  model.biases_optional = JoinQuantizedParts(folder.config, source, folder.tensors);
  const auto ignorable = [&](std::string_view name) {
    return name.ends_with("rotary_emb.inv_freq") || IsMtp(model, name, "model.layers.") ||
           (spec.tied_embeddings && name == "lm_head.weight");
  };
  if (folder.tensors.empty()) {
    out.tensors = TensorsOfConfig(model, config);
    out.missing = "the weights; what they are is taken from config.json alone";
  } else {
    out.tensors = ToEntries(ResolveTensors(model, folder.tensors, architecture.hf_names,
                                           CommonHfNames(), path.string(), ignorable));
    if (folder.data_missing) out.missing = "part of the weights";
  }
  if (!out.missing.empty()) CheckSizes(out.tensors, source);
  out.vocabulary = HfVocabulary(path, false);
  out.spec = std::move(spec);
  out.format = "safetensors";
  out.SetFiles(std::move(folder.files));
}

void OpenGgufModel(const std::filesystem::path& path, MissingData missing, OpenedModel& out) {
  GgufModel file = OpenGguf(path, missing);
  const std::string source = path.string();
  const Architecture& architecture = FindGgufArchitecture(file.architecture, source);
  const ConfigReader metadata(file.metadata, source, file.architecture + ".");
  out.vocabulary = GgufVocabulary(file.first);
  ModelDescription model =
      architecture.from_gguf({metadata, file.tensors, out.vocabulary.tokens.size()});
  ModelSpec& spec = model.spec;
  if (spec.architecture.empty()) spec.architecture = architecture.name;
  if (const GgufValue* name = file.first.Find("general.name");
      name != nullptr && name->type == GgufType::kString) {
    spec.name = name->ToJson().get<std::string>();
  }
  spec.bos_id = out.vocabulary.bos_id;
  spec.eos_ids = GgufEosIds(file.first, out.vocabulary.eos_id);
  CheckTokenIds(spec, source);
  NoteMtp(model);
  const auto ignorable = [&](std::string_view name) {
    const bool rope = name == "rope_freqs.weight" || name == "rope_factors_long.weight" ||
                      name == "rope_factors_short.weight";
    // Some converters write kv_b both whole and split.
    const bool second_kv_b =
        spec.attention.kind == AttentionKind::kMla && !model.split_kv_b &&
        (name.ends_with(".attn_k_b.weight") || name.ends_with(".attn_v_b.weight"));
    return rope || second_kv_b || IsMtp(model, name, "blk.");
  };
  out.tensors = ToEntries(ResolveTensors(model, file.tensors, {}, GgufNames(), source, ignorable));
  out.spec = std::move(spec);
  out.format = fmt::format("GGUF v{}", file.first.version);
  if (file.data_missing) {
    out.missing = "part of the weights";
    CheckSizes(out.tensors, source);
  }
  out.SetFiles(std::move(file.files));
}

}  // namespace hadal
