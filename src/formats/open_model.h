// The two ways to open a model; Checkpoint chooses between them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "formats/checkpoint.h"
#include "formats/gguf.h"

namespace hadal {

struct OpenedModel {
  ModelSpec spec;
  Vocabulary vocabulary;
  std::vector<MappedFile> files;
  std::vector<Checkpoint::Entry> tensors;  // sorted by name
  std::string format;
  uint64_t file_bytes = 0;
  std::vector<std::filesystem::path> paths;
  std::string missing;  // see Checkpoint::missing

  void SetFiles(std::vector<MappedFile> mapped);
};

// Fill an empty `out`; throw Error as Checkpoint::Open does.
void OpenHfModel(const std::filesystem::path& folder, MissingData missing, OpenedModel& out);
void OpenGgufModel(const std::filesystem::path& file, MissingData missing, OpenedModel& out);

}  // namespace hadal
