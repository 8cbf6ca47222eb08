// Any bytes are one Error or a model whose tensors lie inside the file.
#include <cstdint>

#include "base/check.h"
#include "base/error.h"
#include "formats/archs/arch.h"
#include "formats/gguf.h"
#include "formats/tensor_plan.h"

namespace {

void Open(std::span<const std::byte> bytes) {
  const hadal::GgufContents contents = hadal::ParseGguf(bytes, "fuzz");
  hadal::TensorIndex tensors;
  for (const hadal::TensorView& view : contents.tensors) {
    HADAL_CHECK(view.data.data() >= bytes.data());
    HADAL_CHECK(view.data.data() + view.data.size() <= bytes.data() + bytes.size());
    tensors.emplace(view.name, view);
  }
  const hadal::Vocabulary vocabulary = hadal::GgufVocabulary(contents);
  const hadal::GgufValue* name = contents.Find("general.architecture");
  if (name == nullptr || name->type != hadal::GgufType::kString) return;
  const std::string type = name->ToJson().get<std::string>();
  hadal::Json metadata = hadal::Json::object();
  for (const auto& [key, value] : contents.metadata) {
    hadal::Json json = value.ToJson();
    if (key.starts_with(type + ".") && !json.is_discarded()) {
      metadata[key.substr(type.size() + 1)] = json;
    }
  }
  const hadal::ConfigReader reader(metadata, "fuzz", type + ".");
  const hadal::ModelDescription model = hadal::FindGgufArchitecture(type, "fuzz")
                                            .from_gguf({reader, tensors, vocabulary.tokens.size()});
  hadal::ResolveTensors(model, tensors, {}, hadal::GgufNames(), "fuzz",
                        [](std::string_view) { return true; });
}

// A file may be cut short for who reads no weights: then a tensor has all its bytes or none.
void OpenForPlanning(std::span<const std::byte> bytes) {
  const hadal::GgufContents contents = hadal::ParseGguf(bytes, "fuzz", hadal::MissingData::kAllow);
  for (const hadal::TensorView& view : contents.tensors) {
    if (view.data.empty()) continue;
    HADAL_CHECK(view.data.data() + view.data.size() <= bytes.data() + bytes.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    OpenForPlanning(std::as_bytes(std::span(data, size)));
    Open(std::as_bytes(std::span(data, size)));
  } catch (const hadal::Error&) {
  }
  return 0;
}
