// Text to token ids and back, exactly as the model's own tokenizer does it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spec/vocabulary.h"
#include "tokenizer/aligned_text.h"

namespace hadal {

struct EncodeOptions {
  // Adds BOS and EOS as the model's tokenizer asks. A text that begins with BOS gets no second one.
  bool add_bos = true;
  // Recognises added tokens ("<|im_end|>", "<think>") in the text; otherwise they are plain text.
  bool parse_special = true;
  // Sorted, disjoint byte ranges of the text that came from users: none of their bytes is ever
  // part of an added token. (Ordinary tokens may cross their borders.)
  std::span<const ByteRange> data_ranges;
};

// A token and the bytes [begin, end) of the input text that it stands for. Where normalisation
// changed the text, the bytes that were changed together; empty for BOS, EOS and inserted spaces.
struct EncodedToken {
  int32_t id;
  size_t begin;
  size_t end;
  bool operator==(const EncodedToken&) const = default;
};

// What `inspect` tells.
struct TokenizerFacts {
  std::string kind;           // "byte-level BPE", "SentencePiece BPE", "unigram"
  std::string pre_tokenizer;  // a GGUF name, or "tokenizer.json"
  int32_t tokens = 0;         // ids that have a string
  size_t merges = 0;
  size_t added = 0;
  size_t special = 0;  // of the added
};

// Immutable: const calls are safe from any number of threads.
//
// Ill-formed UTF-8: byte-level tokenizers encode the bytes one by one and TokenBytes() gives them
// back; others read each ill-formed sequence as U+FFFD.
class Tokenizer {
 public:
  // Obeys `vocabulary.tokenizer_json` when there is one, else the GGUF fields. Throws
  // Error(kBadFile) on contradictions, Error(kUnsupported) on a feature we do not have; both name
  // it and the source.
  static Tokenizer Create(const Vocabulary& vocabulary);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // Throws Error(kInvalid) when the text cannot be encoded: 4 GiB or more, or a pattern of the
  // tokenizer that runs away on it. Time is n log n in the length.
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options = {}) const;
  std::vector<EncodedToken> EncodeWithOffsets(std::string_view text,
                                              const EncodeOptions& options = {}) const;

  // Well-formed UTF-8: what is not becomes U+FFFD. Ids without a string give nothing.
  std::string Decode(std::span<const int32_t> ids, bool skip_special = false) const;

  // The exact bytes of one token in the middle of a text; perhaps not well-formed on their own.
  // Empty for an id that has no string.
  std::string TokenBytes(int32_t id) const;
  // The token as the vocabulary writes it. Empty for an id that has no string.
  std::string Piece(int32_t id) const;
  // -1 when absent.
  int32_t TokenId(std::string_view piece) const;

  // Special tokens are left out by skip_special. Added ones are found in text before the model.
  bool IsSpecial(int32_t id) const;
  bool IsAdded(int32_t id) const;

  // One more than the largest id. (A model's output may be wider: its padding has no strings.)
  int32_t vocab_size() const;
  int32_t bos_id() const;  // -1: none
  int32_t eos_id() const;
  bool adds_bos() const;
  bool adds_eos() const;
  const TokenizerFacts& facts() const;
  // Memory of its tables. The same vocabulary always gives the same number.
  uint64_t bytes() const;

 private:
  friend class IncrementalDecoder;
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace hadal
