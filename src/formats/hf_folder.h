// A Hugging Face model folder: configuration, tokenizer texts and safetensors files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "formats/gguf.h"
#include "spec/vocabulary.h"

namespace hadal {

struct HfFolder {
  std::filesystem::path path;
  Json config;
  Json generation_config;  // an empty object when the file is absent
  std::vector<MappedFile> files;
  TensorIndex tensors;  // as in the files, before quantization parts are joined
  bool data_missing = false;

  std::string config_source() const { return (path / "config.json").string(); }
  std::string generation_source() const { return (path / "generation_config.json").string(); }
};

// Reads config.json and maps model.safetensors, or all files that model.safetensors.index.json
// names. Throws Error naming the file that is missing or wrong.
// With kAllow, files of tensors may be cut short or missing; in the latter case `tensors` is empty.
HfFolder OpenHfFolder(const std::filesystem::path& path,
                      MissingData missing = MissingData::kRefuse);

// Texts of tokenizer.json, tokenizer_config.json and the chat template. `required`: throws when
// there is no tokenizer.json.
Vocabulary HfVocabulary(const std::filesystem::path& folder, bool required);

}  // namespace hadal
