#include <fmt/ranges.h>

#include <cmath>

#include "base/error.h"
#include "tokenizer/bpe.h"
#include "tokenizer/gguf_pre_tokenizers.h"
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer/unigram.h"

namespace hadal {
namespace {

// tokenizer.ggml.token_type
constexpr int32_t kNormal = 1;
constexpr int32_t kUnknown = 2;
constexpr int32_t kControl = 3;
constexpr int32_t kUserDefined = 4;

int32_t TypeOf(const Vocabulary& vocabulary, int32_t id) {
  return vocabulary.types.empty() ? kNormal : vocabulary.types[id];
}

void CheckSizes(const Vocabulary& vocabulary) {
  const size_t n = vocabulary.tokens.size();
  if (n == 0) Fail(ErrorKind::kBadFile, "the file holds no tokenizer.ggml.tokens");
  if (n > static_cast<size_t>(PieceTable::kMaxIds)) {
    Fail(ErrorKind::kBadFile, "tokenizer.ggml.tokens: {} are too many", n);
  }
  if (!vocabulary.types.empty() && vocabulary.types.size() != n) {
    Fail(ErrorKind::kBadFile, "tokenizer.ggml.token_type has {} entries for {} tokens",
         vocabulary.types.size(), n);
  }
}

void ReadTokens(const Vocabulary& vocabulary, TokenizerParts* parts) {
  for (int32_t id = 0; id < static_cast<int32_t>(vocabulary.tokens.size()); ++id) {
    const std::string& piece = vocabulary.tokens[id];
    if (piece.empty()) continue;
    const int32_t other = parts->pieces->Find(piece);
    if (other >= 0) {
      Fail(ErrorKind::kBadFile, "tokenizer.ggml.tokens: \"{}\" is there twice, as {} and {}", piece,
           other, id);
    }
    parts->pieces->Add(piece, id);
    const int32_t type = TypeOf(vocabulary, id);
    if (type != kControl && type != kUserDefined && type != kUnknown) continue;
    AddedToken token;
    token.content = piece;
    token.id = id;
    token.special = type != kUserDefined;
    parts->added_tokens.push_back(std::move(token));
  }
}

void CheckId(const Vocabulary& vocabulary, const char* key, int32_t id) {
  if (id < -1 || id >= static_cast<int32_t>(vocabulary.tokens.size())) {
    Fail(ErrorKind::kBadFile, "tokenizer.ggml.{} is {}, but there are {} tokens", key, id,
         vocabulary.tokens.size());
  }
}

// The tokens around a text. `by_kind`: what counts when the file does not say.
void SetFrame(const char* key, int flag, bool by_kind, int32_t id, std::vector<int32_t>* side) {
  if (flag == 0 || (flag < 0 && !by_kind)) return;
  if (id >= 0) {
    side->push_back(id);
  } else if (flag > 0) {
    Fail(ErrorKind::kBadFile, "tokenizer.ggml.{} is true, but there is no such token", key);
  }
}

void SetFrames(const Vocabulary& vocabulary, bool bos, bool eos, TokenizerParts* parts) {
  CheckId(vocabulary, "bos_token_id", vocabulary.bos_id);
  CheckId(vocabulary, "eos_token_id", vocabulary.eos_id);
  parts->bos_id = vocabulary.bos_id;
  parts->eos_id = vocabulary.eos_id;
  SetFrame("add_bos_token", vocabulary.add_bos, bos, vocabulary.bos_id, &parts->prefix);
  SetFrame("add_eos_token", vocabulary.add_eos, eos, vocabulary.eos_id, &parts->suffix);
}

std::vector<std::pair<std::string, std::string>> ReadMerges(const Vocabulary& vocabulary) {
  std::vector<std::pair<std::string, std::string>> merges;
  merges.reserve(vocabulary.merges.size());
  for (const std::string& merge : vocabulary.merges) {
    const size_t space = merge.find(' ', 1);
    if (space == std::string::npos || space + 1 == merge.size()) {
      Fail(ErrorKind::kBadFile, "tokenizer.ggml.merges: \"{}\" is not two pieces", merge);
    }
    merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  return merges;
}

void ReadByteLevel(const Vocabulary& vocabulary, TokenizerParts* parts) {
  const GgufPreTokenizer* pre = FindGgufPreTokenizer(vocabulary.pre);
  if (pre == nullptr) {
    Fail(ErrorKind::kUnsupported,
         "tokenizer.ggml.pre \"{}\" is not a known pre-tokenizer; known are {}. A wrong one gives "
         "wrong tokens, so none is assumed",
         vocabulary.pre, fmt::join(GgufPreTokenizerNames(), ", "));
  }
  if (vocabulary.add_space_prefix > 0) {
    Fail(ErrorKind::kUnsupported, "tokenizer.ggml.add_space_prefix with a byte-level vocabulary");
  }
  if (pre->nfc) parts->normalizer.Add(NormalForm::kNfc);
  for (const std::string_view pattern : pre->patterns) {
    parts->pre_tokenizer.Add(SplitStep{Regex::Compile(pattern), SplitBehavior::kIsolated, false});
  }
  BpeOptions options;
  options.byte_level = true;
  options.ignore_merges = pre->ignore_merges;
  std::unique_ptr<Bpe> bpe = Bpe::FromMerges(*parts->pieces, ReadMerges(vocabulary), options);
  parts->byte_level = true;
  parts->decoder.Add(ByteLevelDecode{});
  parts->facts = {.kind = "byte-level BPE", .pre_tokenizer = vocabulary.pre};
  parts->facts.merges = bpe->merge_count();
  parts->model = std::move(bpe);
  SetFrames(vocabulary, pre->adds_bos, false, parts);
}

// "▁" for spaces, and one before the text unless the file says otherwise.
void AddSpaceMarks(const Vocabulary& vocabulary, TokenizerParts* parts) {
  const std::string mark(kSpaceMark);
  const bool prefix = vocabulary.add_space_prefix != 0;
  if (prefix) parts->normalizer.Add(PrependStep{mark});
  parts->normalizer.Add(ReplaceStep{Regex::Compile(" "), " ", mark});
  parts->decoder.Add(ReplaceStep{Regex::Compile(mark), mark, " "});
  parts->decoder.Add(ByteFallbackDecode{});
  parts->decoder.Add(FuseDecode{});
  if (prefix) parts->decoder.Add(StripDecode{" ", 1, 0});
}

std::vector<bool> NormalTokens(const Vocabulary& vocabulary) {
  std::vector<bool> normal(vocabulary.tokens.size());
  for (int32_t id = 0; id < static_cast<int32_t>(normal.size()); ++id) {
    normal[id] = TypeOf(vocabulary, id) == kNormal && !vocabulary.tokens[id].empty();
  }
  return normal;
}

void CheckScores(const Vocabulary& vocabulary) {
  if (vocabulary.scores.size() != vocabulary.tokens.size()) {
    Fail(ErrorKind::kBadFile, "tokenizer.ggml.scores has {} entries for {} tokens",
         vocabulary.scores.size(), vocabulary.tokens.size());
  }
  for (const float score : vocabulary.scores) {
    if (!std::isfinite(score)) {
      Fail(ErrorKind::kBadFile, "tokenizer.ggml.scores holds a value that is not finite");
    }
  }
}

int32_t UnknownId(const Vocabulary& vocabulary) {
  CheckId(vocabulary, "unknown_token_id", vocabulary.unk_id);
  if (vocabulary.unk_id >= 0) return vocabulary.unk_id;
  for (int32_t id = 0; id < static_cast<int32_t>(vocabulary.tokens.size()); ++id) {
    if (TypeOf(vocabulary, id) == kUnknown) return id;
  }
  return -1;
}

void ReadSentencePieceBpe(const Vocabulary& vocabulary, TokenizerParts* parts) {
  CheckScores(vocabulary);
  AddSpaceMarks(vocabulary, parts);
  BpeOptions options;
  options.byte_fallback = true;
  options.fuse_unk = true;
  options.unk_id = UnknownId(vocabulary);
  std::unique_ptr<Bpe> bpe =
      Bpe::FromScores(*parts->pieces, vocabulary.scores, NormalTokens(vocabulary), options);
  parts->facts = {.kind = "SentencePiece BPE", .pre_tokenizer = "none"};
  parts->facts.merges = bpe->merge_count();
  parts->model = std::move(bpe);
  SetFrames(vocabulary, true, false, parts);
}

void ReadUnigram(const Vocabulary& vocabulary, TokenizerParts* parts) {
  CheckScores(vocabulary);
  AddSpaceMarks(vocabulary, parts);
  UnigramOptions options;
  options.unk_id = UnknownId(vocabulary);
  options.byte_fallback = true;
  parts->model = std::make_unique<Unigram>(
      *parts->pieces, std::vector<double>(vocabulary.scores.begin(), vocabulary.scores.end()),
      NormalTokens(vocabulary), options);
  parts->facts = {.kind = "unigram", .pre_tokenizer = "none"};
  SetFrames(vocabulary, false, true, parts);
}

}  // namespace

TokenizerParts ReadGgufVocabulary(const Vocabulary& vocabulary) {
  CheckSizes(vocabulary);
  TokenizerParts parts;
  ReadTokens(vocabulary, &parts);
  if (vocabulary.model == "gpt2") {
    ReadByteLevel(vocabulary, &parts);
  } else if (vocabulary.model == "llama") {
    ReadSentencePieceBpe(vocabulary, &parts);
  } else if (vocabulary.model == "t5") {
    ReadUnigram(vocabulary, &parts);
  } else {
    Fail(ErrorKind::kUnsupported,
         "tokenizer.ggml.model \"{}\" is not supported; gpt2, llama and t5 are", vocabulary.model);
  }
  return parts;
}

}  // namespace hadal
