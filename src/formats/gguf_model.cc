// Split files, and the vocabulary inside a GGUF file.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "formats/config_reader.h"
#include "formats/gguf.h"

namespace hadal {
namespace {

// Metadata as JSON: what begins with `prefix`, without it.
Json MetadataObject(const GgufContents& contents, std::string_view prefix) {
  Json object = Json::object();
  for (const auto& [key, value] : contents.metadata) {
    if (!std::string_view(key).starts_with(prefix)) continue;
    Json json = value.ToJson();
    if (!json.is_discarded()) object[key.substr(prefix.size())] = std::move(json);
  }
  return object;
}

std::filesystem::path SplitPath(const std::filesystem::path& first, uint64_t index,
                                uint64_t count) {
  const std::string name = first.filename().string();
  const std::string suffix = fmt::format("-{:05}-of-{:05}.gguf", 1, count);
  if (!name.ends_with(suffix)) {
    Fail(ErrorKind::kBadFile,
         "{}: part of a model in {} files, whose first must be called NAME{}; keep the names that "
         "the files came with",
         first.string(), count, suffix);
  }
  return first.parent_path() / fmt::format("{}-{:05}-of-{:05}.gguf",
                                           name.substr(0, name.size() - suffix.size()), index + 1,
                                           count);
}

uint64_t SplitField(const GgufContents& contents, std::string_view field, uint64_t otherwise) {
  const GgufValue* value = contents.Find(field);
  if (value == nullptr) return otherwise;
  const Json json = value->ToJson();
  if (!json.is_number_integer() || json.get<int64_t>() < 0) {
    Fail(ErrorKind::kBadFile, "{}: metadata '{}' must be a count", contents.source, field);
  }
  return json.get<uint64_t>();
}

void AddTensors(const GgufContents& contents, TensorIndex& index) {
  for (const TensorView& view : contents.tensors) {
    if (!index.emplace(view.name, view).second) {
      Fail(ErrorKind::kBadFile, "{}: tensor '{}' is in another part of the model too",
           contents.source, view.name);
    }
  }
}

void AddParts(const std::filesystem::path& path, uint64_t count, MissingData missing,
              GgufModel& model) {
  if (const uint64_t number = SplitField(model.first, "split.no", 0); number != 0) {
    Fail(ErrorKind::kUsage, "{}: part {} of {} of a model; name the first part, ...-00001-of-{:05}",
         path.string(), number + 1, count, count);
  }
  for (uint64_t i = 1; i < count; ++i) {
    const std::filesystem::path part = SplitPath(path, i, count);
    if (!std::filesystem::exists(part)) {
      Fail(ErrorKind::kNotFound, "{}: part {} of {} of the model is missing", part.string(), i + 1,
           count);
    }
    model.files.emplace_back(part);
    const GgufContents contents = ParseGguf(model.files.back().bytes(), part.string(), missing);
    model.data_missing = model.data_missing || contents.data_missing;
    if (SplitField(contents, "split.no", 0) != i ||
        SplitField(contents, "split.count", 0) != count) {
      Fail(ErrorKind::kBadFile, "{}: does not say that it is part {} of {}", part.string(), i + 1,
           count);
    }
    AddTensors(contents, model.tensors);
  }
  const uint64_t claimed = SplitField(model.first, "split.tensors.count", model.tensors.size());
  if (claimed != model.tensors.size()) {
    Fail(ErrorKind::kBadFile, "{}: claims {} tensors in all parts, but they hold {}", path.string(),
         claimed, model.tensors.size());
  }
}

template <typename T>
std::vector<T> Numbers(const GgufContents& contents, std::string_view key, GgufType type) {
  const GgufValue* value = contents.Find(key);
  if (value == nullptr) return {};
  if (value->type != GgufType::kArray || value->element != type) {
    Fail(ErrorKind::kBadFile, "{}: metadata '{}' is not an array of the right type",
         contents.source, key);
  }
  std::vector<T> numbers(value->count);
  if (!numbers.empty()) std::memcpy(numbers.data(), value->payload.data(), value->payload.size());
  return numbers;
}

std::vector<std::string> Strings(const GgufContents& contents, std::string_view key) {
  const GgufValue* value = contents.Find(key);
  if (value == nullptr) return {};
  if (value->type != GgufType::kArray || value->element != GgufType::kString) {
    Fail(ErrorKind::kBadFile, "{}: metadata '{}' is not an array of strings", contents.source, key);
  }
  return value->Strings();
}

int Tristate(std::optional<bool> flag) {
  return flag ? static_cast<int>(*flag) : -1;
}

int32_t TokenId(const ConfigReader& reader, std::string_view field) {
  // Some files hold -1 for "none", signed or not.
  const auto number = reader.OptionalNumber(field);
  if (!number || *number == -1.0 || *number == 4294967295.0) return -1;
  return reader.TokenIds(field).at(0);
}

}  // namespace

GgufModel OpenGguf(const std::filesystem::path& path, MissingData missing) {
  GgufModel model;
  model.files.emplace_back(path);
  model.first = ParseGguf(model.files[0].bytes(), path.string(), missing);
  model.data_missing = model.first.data_missing;
  AddTensors(model.first, model.tensors);
  const uint64_t count = SplitField(model.first, "split.count", 1);
  if (count > 99999) {
    Fail(ErrorKind::kBadFile, "{}: claims to be split into {} files", path.string(), count);
  }
  if (count > 1) AddParts(path, count, missing, model);

  const Json general = MetadataObject(model.first, "general.");
  model.architecture = ConfigReader(general, path.string(), "general.").Text("architecture");
  model.metadata = MetadataObject(model.first, model.architecture + ".");
  return model;
}

Vocabulary GgufVocabulary(const GgufContents& contents) {
  const Json object = MetadataObject(contents, "tokenizer.");
  const ConfigReader reader(object, contents.source, "tokenizer.");
  Vocabulary out;
  out.source = contents.source;
  out.model = reader.OptionalText("ggml.model").value_or("");
  out.pre = reader.OptionalText("ggml.pre").value_or("");
  out.tokens = Strings(contents, "tokenizer.ggml.tokens");
  out.scores = Numbers<float>(contents, "tokenizer.ggml.scores", GgufType::kF32);
  out.types = Numbers<int32_t>(contents, "tokenizer.ggml.token_type", GgufType::kI32);
  out.merges = Strings(contents, "tokenizer.ggml.merges");
  if ((!out.scores.empty() && out.scores.size() != out.tokens.size()) ||
      (!out.types.empty() && out.types.size() != out.tokens.size())) {
    Fail(ErrorKind::kBadFile, "{}: {} tokens, but {} scores and {} token types", contents.source,
         out.tokens.size(), out.scores.size(), out.types.size());
  }
  out.bos_id = TokenId(reader, "ggml.bos_token_id");
  out.eos_id = TokenId(reader, "ggml.eos_token_id");
  out.unk_id = TokenId(reader, "ggml.unknown_token_id");
  out.pad_id = TokenId(reader, "ggml.padding_token_id");
  out.add_bos = Tristate(reader.OptionalFlag("ggml.add_bos_token"));
  out.add_eos = Tristate(reader.OptionalFlag("ggml.add_eos_token"));
  out.add_space_prefix = Tristate(reader.OptionalFlag("ggml.add_space_prefix"));
  out.chat_template = reader.OptionalText("chat_template").value_or("");
  return out;
}

}  // namespace hadal
