#include "formats/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "formats/gguf.h"
#include "formats/hf_folder.h"
#include "formats/open_model.h"

namespace hadal {

struct Checkpoint::Impl : OpenedModel {};

namespace {

enum class PathKind { kGguf, kFolder, kTokenizerFolder };

bool HasGgufMagic(const std::filesystem::path& path) {
  const MappedFile file(path);
  constexpr std::string_view kMagic = "GGUF";
  return file.bytes().size() >= 4 && std::equal(kMagic.begin(), kMagic.end(),
                                                reinterpret_cast<const char*>(file.bytes().data()));
}

// A folder's only .gguf file (or the first of its only split model); empty when there is none.
std::filesystem::path GgufInFolder(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool later_part = name.size() > 20 && name.find("-of-") != std::string::npos &&
                            name.find("-00001-of-") == std::string::npos;
    if (name.ends_with(".gguf") && !later_part) found.push_back(entry.path());
  }
  if (found.size() > 1) {
    std::sort(found.begin(), found.end());
    Fail(ErrorKind::kUsage, "{}: holds {} GGUF models, {} and others; name one", folder.string(),
         found.size(), found[0].filename().string());
  }
  return found.empty() ? std::filesystem::path() : found[0];
}

// Decides what a path is; a folder with a GGUF file alone becomes that file's path.
PathKind Classify(std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    Fail(ErrorKind::kNotFound,
         "'{}': there is no such file or folder; a model is a .gguf file or a folder with "
         "config.json "
         "and model.safetensors",
         path.string());
  }
  if (std::filesystem::is_directory(path)) {
    if (std::filesystem::exists(path / "config.json")) return PathKind::kFolder;
    if (const auto gguf = GgufInFolder(path); !gguf.empty()) {
      path = gguf;
      return PathKind::kGguf;
    }
    if (std::filesystem::exists(path / "tokenizer.json")) return PathKind::kTokenizerFolder;
    Fail(ErrorKind::kNotFound,
         "{}: the folder holds neither config.json (with model.safetensors), nor a .gguf file, nor "
         "tokenizer.json",
         path.string());
  }
  if (HasGgufMagic(path)) return PathKind::kGguf;
  if (path.extension() == ".safetensors" || path.extension() == ".json") {
    Fail(ErrorKind::kUsage, "{}: a single file of a Hugging Face model; name its folder",
         path.string());
  }
  Fail(ErrorKind::kBadFile,
       "{}: not a model: the file does not begin with \"GGUF\", and it is not a folder with "
       "config.json and model.safetensors",
       path.string());
}

uint64_t HashText(const std::string& text, uint64_t seed) {
  return Hash64(std::as_bytes(std::span(text)), seed);
}

// "file 0 at 4096, 512 bytes", or what says that the part is not there.
std::string Place(std::span<const std::byte> part, const std::vector<MappedFile>& files) {
  for (size_t i = 0; i < files.size() && !part.empty(); ++i) {
    const std::byte* begin = files[i].bytes().data();
    if (part.data() < begin || part.data() >= begin + files[i].bytes().size()) continue;
    return fmt::format(" {}:{}+{}", i, part.data() - begin, part.size());
  }
  return " -";
}

// All that decides what a tensor's bytes mean.
std::string DirectoryLine(const Checkpoint::Entry& entry, const std::vector<MappedFile>& files) {
  const TensorView& view = entry.view;
  std::string line =
      fmt::format("{} {} {} {} {} {}", entry.name, Name(view.dtype), fmt::join(view.shape, "x"),
                  view.scale_block, view.group_size, view.zeros_minus_one);
  for (const auto part :
       {view.data, view.scales, view.zeros, view.group_scales, view.group_index}) {
    line += Place(part, files);
  }
  return line;
}

}  // namespace

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::~Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;

Checkpoint Checkpoint::Open(const std::filesystem::path& path) {
  return Checkpoint(OpenAny(path, false));
}

Checkpoint Checkpoint::OpenForPlanning(const std::filesystem::path& path) {
  return Checkpoint(OpenAny(path, true));
}

std::unique_ptr<Checkpoint::Impl> Checkpoint::OpenAny(const std::filesystem::path& path,
                                                      bool for_planning) {
  const MissingData missing = for_planning ? MissingData::kAllow : MissingData::kRefuse;
  std::filesystem::path model = path;
  auto impl = std::make_unique<Impl>();
  switch (Classify(model)) {
    case PathKind::kFolder:
      OpenHfModel(model, missing, *impl);
      break;
    case PathKind::kGguf:
      OpenGgufModel(model, missing, *impl);
      break;
    case PathKind::kTokenizerFolder:
      Fail(ErrorKind::kNotFound,
           "{}: the folder holds a tokenizer, but no config.json with model.safetensors",
           path.string());
  }
  return impl;
}

Vocabulary Checkpoint::OpenVocabulary(const std::filesystem::path& path) {
  std::filesystem::path model = path;
  if (Classify(model) != PathKind::kGguf) return HfVocabulary(model, true);
  const MappedFile file(model);
  Vocabulary vocabulary = GgufVocabulary(ParseGguf(file.bytes(), model.string()));
  if (vocabulary.tokens.empty()) {
    Fail(ErrorKind::kBadFile, "{}: holds no vocabulary (tokenizer.ggml.tokens)", model.string());
  }
  return vocabulary;
}

const ModelSpec& Checkpoint::spec() const {
  return impl_->spec;
}
const Vocabulary& Checkpoint::vocabulary() const {
  return impl_->vocabulary;
}
Vocabulary Checkpoint::TakeVocabulary() {
  return std::exchange(impl_->vocabulary, {});
}
const std::vector<Checkpoint::Entry>& Checkpoint::tensors() const {
  return impl_->tensors;
}
const std::string& Checkpoint::format() const {
  return impl_->format;
}
const std::string& Checkpoint::missing() const {
  return impl_->missing;
}
uint64_t Checkpoint::file_bytes() const {
  return impl_->file_bytes;
}
const std::vector<std::filesystem::path>& Checkpoint::files() const {
  return impl_->paths;
}

std::string Checkpoint::Identity() const {
  std::string text;
  for (const MappedFile& file : impl_->files) {
    const FileIdentity& id = file.identity();
    std::error_code ignored;
    text += fmt::format("file {}: {} bytes, device {}, inode {}, modified {}, changed {}\n",
                        std::filesystem::weakly_canonical(file.path(), ignored).string(), id.size,
                        id.device, id.inode, id.modified, id.changed);
  }
  uint64_t hash = 0;
  for (const Entry& entry : impl_->tensors)
    hash = HashText(DirectoryLine(entry, impl_->files), hash);
  return text + fmt::format("{} tensors: {:016x}\n", impl_->tensors.size(), hash);
}

bool Checkpoint::Unchanged() const {
  return std::all_of(impl_->files.begin(), impl_->files.end(),
                     [](const MappedFile& file) { return file.Unchanged(); });
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto it = std::lower_bound(impl_->tensors.begin(), impl_->tensors.end(), name,
                                   [](const Entry& e, std::string_view n) { return e.name < n; });
  return it == impl_->tensors.end() || it->name != name ? nullptr : &it->view;
}

const TensorView& Checkpoint::tensor(std::string_view name) const {
  if (const TensorView* view = find(name)) return *view;
  Fail(ErrorKind::kBadFile, "{}: the model has no tensor '{}'", impl_->paths.at(0).string(), name);
}

void Checkpoint::Release(const TensorView& view) const {
  for (const auto part :
       {view.data, view.scales, view.zeros, view.group_scales, view.group_index}) {
    for (const MappedFile& file : impl_->files) {
      const std::byte* begin = file.bytes().data();
      if (part.empty() || part.data() < begin || part.data() >= begin + file.bytes().size())
        continue;
      file.DropPages(static_cast<size_t>(part.data() - begin), part.size());
    }
  }
}

}  // namespace hadal
