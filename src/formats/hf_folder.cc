#include "formats/hf_folder.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "formats/safetensors.h"

namespace hadal {
namespace {

constexpr size_t kMaxConfigBytes = size_t{64} << 20;
constexpr size_t kMaxTokenizerBytes = size_t{256} << 20;

Json ReadJson(const std::filesystem::path& path) {
  return ParseJson(ReadTextFile(path, kMaxConfigBytes), path.string());
}

void AddFile(const std::filesystem::path& path, MissingData missing, HfFolder& folder) {
  folder.files.emplace_back(path);
  for (TensorView& view : ParseSafetensors(folder.files.back().bytes(), path.string(), missing)) {
    const std::string name = view.name;
    folder.data_missing = folder.data_missing || view.data.empty();
    if (!folder.tensors.emplace(name, std::move(view)).second) {
      Fail(ErrorKind::kBadFile, "{}: tensor '{}' is in another file of the model too",
           path.string(), name);
    }
  }
}

// A shard's name must be a plain file name: an index must not reach outside its folder.
std::string ShardName(const Json& value, const std::string& index) {
  if (!value.is_string()) Fail(ErrorKind::kBadFile, "{}: a shard's name is not a string", index);
  auto name = value.get<std::string>();
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    Fail(ErrorKind::kBadFile, "{}: shard '{}' is not a plain file name", index, name);
  }
  return name;
}

// False when a shard is not there, and need not be.
bool AddShards(const std::filesystem::path& index_path, MissingData missing, HfFolder& folder) {
  const std::string source = index_path.string();
  const Json index = ReadJson(index_path);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object() || map->empty()) {
    Fail(ErrorKind::kBadFile, "{}: there is no 'weight_map' object with tensors in it", source);
  }
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map->items()) shards.insert(ShardName(shard, source));
  for (const std::string& shard : shards) {
    const std::filesystem::path path = folder.path / shard;
    if (!std::filesystem::exists(path)) {
      if (missing == MissingData::kAllow) return false;
      Fail(ErrorKind::kNotFound, "{}: missing, though {} names it; fetch the file", path.string(),
           source);
    }
    AddFile(path, missing, folder);
  }
  for (const auto& [tensor, shard] : map->items()) {
    if (!folder.tensors.contains(tensor)) {
      Fail(ErrorKind::kBadFile, "{}: tensor '{}' is not there, though {} says so",
           (folder.path / shard.get<std::string>()).string(), tensor, source);
    }
  }
  return true;
}

// A string, or a list of named templates of which "default" counts.
std::string TemplateOf(const Json& config, const std::string& source) {
  if (!config.is_object()) Fail(ErrorKind::kBadFile, "{}: expected a JSON object", source);
  const auto it = config.find("chat_template");
  if (it == config.end() || it->is_null()) return "";
  if (it->is_string()) return it->get<std::string>();
  if (it->is_array()) {
    for (const Json& item : *it) {
      const bool named = item.is_object() && item.contains("name") && item.contains("template") &&
                         item["template"].is_string();
      if (named && item["name"] == "default") return item["template"].get<std::string>();
    }
  }
  Fail(ErrorKind::kBadFile,
       "{}: field 'chat_template' is neither a string nor a list with a template named 'default'",
       source);
}

}  // namespace

HfFolder OpenHfFolder(const std::filesystem::path& path, MissingData missing) {
  HfFolder folder;
  folder.path = path;
  folder.config = ReadJson(path / "config.json");
  const std::filesystem::path generation = path / "generation_config.json";
  folder.generation_config =
      std::filesystem::exists(generation) ? ReadJson(generation) : Json::object();

  const std::filesystem::path single = path / "model.safetensors";
  const std::filesystem::path index = path / "model.safetensors.index.json";
  bool found = true;
  if (std::filesystem::exists(single)) {
    AddFile(single, missing, folder);
  } else if (std::filesystem::exists(index)) {
    found = AddShards(index, missing, folder);
  } else if (missing == MissingData::kAllow) {
    found = false;
  } else {
    Fail(ErrorKind::kNotFound,
         "{}: has a config.json, but neither model.safetensors nor model.safetensors.index.json",
         path.string());
  }
  if (!found) {
    folder.tensors.clear();
    folder.data_missing = true;
  }
  return folder;
}

Vocabulary HfVocabulary(const std::filesystem::path& folder, bool required) {
  Vocabulary out;
  out.source = folder.string();
  const std::filesystem::path tokenizer = folder / "tokenizer.json";
  if (std::filesystem::exists(tokenizer)) {
    out.source = tokenizer.string();
    out.tokenizer_json = ReadTextFile(tokenizer, kMaxTokenizerBytes);
  } else if (required) {
    Fail(ErrorKind::kNotFound,
         "{}: no tokenizer.json there (a tokenizer.model alone is not supported)", folder.string());
  }
  const std::filesystem::path config = folder / "tokenizer_config.json";
  if (std::filesystem::exists(config)) {
    out.tokenizer_config_json = ReadTextFile(config, kMaxConfigBytes);
    out.chat_template =
        TemplateOf(ParseJson(out.tokenizer_config_json, config.string()), config.string());
  }
  // As in transformers, the separate file wins.
  const std::filesystem::path jinja = folder / "chat_template.jinja";
  if (std::filesystem::exists(jinja)) out.chat_template = ReadTextFile(jinja, kMaxConfigBytes);
  return out;
}

}  // namespace hadal
