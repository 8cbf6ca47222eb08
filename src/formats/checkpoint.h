// A model on disk, opened: its spec, its vocabulary and its tensors under canonical names.
// Hides whether the files are GGUF or a Hugging Face folder, and what they call their tensors.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "spec/model_spec.h"
#include "spec/vocabulary.h"
#include "tensor/tensor_view.h"

namespace hadal {

// Canonical tensor names (i: layer, e: expert). Only those that the spec calls for exist.
//   embed  norm  head                              [vocab, hidden]  [hidden]  [vocab, hidden]
//   layers.i.attn_norm  layers.i.ffn_norm          [hidden]
//   layers.i.q  .k  .v  .o       (+ ".bias")       GQA projections, [out, in]
//   layers.i.q_norm  .k_norm                       [head_dim]
//   layers.i.q_a .q_a_norm .q_b  (or .q)           MLA queries
//   layers.i.kv_a  .kv_a_norm                      [kv_lora + rope, hidden]  [kv_lora]
//   layers.i.kv_b                                  [heads * (nope + v), kv_lora]; or, where the
//   file layers.i.k_b  layers.i.v_b                     has it split: [heads, kv_lora, nope],
//   [heads, v, kv_lora] layers.i.gate .up .down      (+ ".bias")       dense feed-forward
//   layers.i.router  .router_bias                  [experts, hidden]  [experts] (choice bias)
//   layers.i.experts.e.gate .up .down              one expert each, also where the file stacks them
//   layers.i.shared.gate .up .down  .shared.router shared experts; their gate vector [1, hidden]
class Checkpoint {
 public:
  // `path`: a .gguf file (or the first of a split one), or a folder with config.json and
  // safetensors, or with one GGUF model. Checks everything that can be checked without reading
  // weights: sizes, overlaps, shapes against the spec, missing and left-over tensors. Throws Error
  // naming file, field and remedy.
  static Checkpoint Open(const std::filesystem::path& path);

  // The same for who only counts bytes and reads no weights: files may be cut short (a header that
  // was fetched alone) or missing behind a config.json. What is not there is said by missing(); the
  // views of its tensors have no data.
  static Checkpoint OpenForPlanning(const std::filesystem::path& path);

  // Opens only what the tokenizer needs; also works on a folder without config or weights.
  static Vocabulary OpenVocabulary(const std::filesystem::path& path);

  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;

  const ModelSpec& spec() const;
  const Vocabulary& vocabulary() const;
  // For who needs its strings, megabytes of them, only for a while: vocabulary() is empty
  // afterwards.
  Vocabulary TakeVocabulary();

  // All tensors, by canonical name, sorted. Views stay valid as long as the checkpoint.
  struct Entry {
    std::string name;
    TensorView view;
  };
  const std::vector<Entry>& tensors() const;
  // Throws Error(kBadFile) naming the tensor when absent.
  const TensorView& tensor(std::string_view name) const;
  // Null when absent.
  const TensorView* find(std::string_view name) const;

  // Tells the system that the tensor's file pages are not needed any more.
  void Release(const TensorView& view) const;

  // "GGUF v3" or "safetensors"; total bytes of all files; the files' paths.
  const std::string& format() const;
  uint64_t file_bytes() const;
  // "part of the weights", or empty.
  const std::string& missing() const;
  const std::vector<std::filesystem::path>& files() const;

  // Says in text which files, in which state, hold which tensors where: what is derived from the
  // tensors alone stays valid as long as this is the same.
  std::string Identity() const;
  // The files are still those that were opened, and nobody has written to them since.
  bool Unchanged() const;

 private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  static std::unique_ptr<Impl> OpenAny(const std::filesystem::path& path, bool for_planning);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hadal
