#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "tokenizer/piece_cache.h"
#include "tokenizer/tokenizer_impl.h"

namespace hadal {
namespace {

constexpr size_t kMaxTextBytes = UINT32_MAX - 1;

// One text on its way to tokens.
class EncodeRun {
 public:
  EncodeRun(const TokenizerParts& parts, const AddedTokens& added, const EncodeOptions& options,
            size_t text_bytes, bool with_offsets)
      : parts_(parts),
        added_(added),
        parse_special_(options.parse_special),
        with_offsets_(with_offsets),
        cache_(text_bytes) {
    // An empty range holds no byte, so it must not part a token either.
    std::copy_if(options.data_ranges.begin(), options.data_ranges.end(), std::back_inserter(data_),
                 [](const ByteRange& range) { return range.begin < range.end; });
  }

  void Run(std::string_view text) {
    valid_ = FindInvalidUtf8(text) == std::string_view::npos;
    AlignedText whole(text, 0);
    if (!valid_ && !parts_.byte_level) {
      whole = ReplaceInvalid(whole);
      valid_ = true;
    }
    if (!parse_special_) return Normalized(parts_.normalizer.Run(std::move(whole)));
    for (const Section& section : added_.Split(whole, false, data_)) {
      if (section.id >= 0) {
        EmitAdded(whole, section);
      } else {
        Text(whole.Slice(section.range.begin, section.range.end));
      }
    }
  }

  std::vector<int32_t> ids;
  std::vector<EncodedToken> tokens;  // instead of ids when offsets are wanted

 private:
  static AlignedText ReplaceInvalid(const AlignedText& in) {
    const std::string_view text = in.text();
    TextBuilder out(in);
    for (size_t pos = 0; pos < text.size();) {
      const Utf8Char c = DecodeUtf8(text, pos);
      if (c.valid) {
        out.Copy(pos, pos + c.size);
      } else {
        out.Put("\xEF\xBF\xBD", pos, pos + c.size);
      }
      pos += c.size;
    }
    return std::move(out).Finish();
  }

  void Emit(int32_t id, const AlignedText& text, size_t begin, size_t end) {
    if (with_offsets_) {
      const ByteRange origin = text.Origin(begin, end);
      tokens.push_back({id, origin.begin, origin.end});
    } else {
      ids.push_back(id);
    }
  }

  void EmitAdded(const AlignedText& text, const Section& section) {
    Emit(section.id, text, section.range.begin, section.range.end);
  }

  void Text(AlignedText text) {
    text = parts_.normalizer.Run(std::move(text));
    if (!added_.has_normalized()) return Normalized(std::move(text));
    for (const Section& section : added_.Split(text, true, data_)) {
      if (section.id >= 0) {
        EmitAdded(text, section);
      } else {
        Normalized(text.Slice(section.range.begin, section.range.end));
      }
    }
  }

  void Normalized(AlignedText text) {
    const PieceList list = parts_.pre_tokenizer.Run(std::move(text), valid_);
    const bool cut = parts_.model->MayCutAtMarks();
    for (const Span& piece : list.pieces) {
      if (cut) {
        CutAtMarks(list.text, piece);
      } else {
        Piece(list.text, piece);
      }
    }
  }

  // A "▁" that follows another character begins a new piece: short pieces are fast and repeat.
  void CutAtMarks(const AlignedText& text, Span piece) {
    const std::string_view content = text.text();
    uint32_t begin = piece.begin;
    uint32_t pos = begin;
    while (begin < piece.end) {
      while (pos < piece.end && content.substr(pos).starts_with(kSpaceMark)) {
        pos += static_cast<uint32_t>(kSpaceMark.size());
      }
      const size_t next = content.substr(0, piece.end).find(kSpaceMark, pos);
      pos = next == std::string_view::npos ? piece.end : static_cast<uint32_t>(next);
      Piece(text, {begin, pos});
      begin = pos;
    }
  }

  void Piece(const AlignedText& text, Span piece) {
    const std::string_view content = text.text().substr(piece.begin, piece.size());
    const bool cached = content.size() <= PieceCache::kMaxPieceBytes;
    std::span<const ModelToken> found;
    if (cached) found = cache_.Find(content);
    if (found.empty()) {
      buffer_.clear();
      parts_.model->Encode(content, &scratch_, &buffer_);
      if (cached && !buffer_.empty()) cache_.Put(content, buffer_);
      found = buffer_;
    }
    for (const ModelToken& token : found) {
      Emit(token.id, text, piece.begin + token.begin, piece.begin + token.end);
    }
  }

  const TokenizerParts& parts_;
  const AddedTokens& added_;
  bool parse_special_;
  std::vector<ByteRange> data_;
  bool with_offsets_;
  bool valid_ = true;
  PieceCache cache_;
  ModelScratch scratch_;
  std::vector<ModelToken> buffer_;
};

int32_t IdOf(int32_t id) {
  return id;
}
int32_t IdOf(const EncodedToken& token) {
  return token.id;
}

// Puts the tokenizer's own tokens around the text's.
template <typename Token, typename Make>
void AddFrame(const TokenizerParts& parts, std::vector<Token>* tokens, Make&& make) {
  const auto& prefix = parts.prefix;
  const bool has_prefix =
      tokens->size() >= prefix.size() &&
      std::equal(prefix.begin(), prefix.end(), tokens->begin(),
                 [](int32_t id, const Token& token) { return id == IdOf(token); });
  if (!has_prefix) {
    tokens->insert(tokens->begin(), prefix.size(), Token{});
    for (size_t i = 0; i < prefix.size(); ++i) (*tokens)[i] = make(prefix[i], true);
  }
  for (const int32_t id : parts.suffix) tokens->push_back(make(id, false));
}

void CheckInput(std::string_view text, const EncodeOptions& options) {
  if (text.size() > kMaxTextBytes) {
    Fail(ErrorKind::kInvalid, "a text of {} bytes cannot be tokenized: the limit is {}",
         text.size(), kMaxTextBytes);
  }
  size_t previous = 0;
  for (const ByteRange& range : options.data_ranges) {
    HADAL_CHECK(range.begin >= previous && range.end >= range.begin && range.end <= text.size());
    previous = range.end;
  }
}

}  // namespace

Tokenizer::Impl::Impl(TokenizerParts p)
    : parts(std::move(p)), added(parts.added_tokens, parts.normalizer) {
  vocab_size = parts.pieces->size();
  int32_t extra = 0;
  for (const AddedToken& token : parts.added_tokens) {
    vocab_size = std::max(vocab_size, token.id + 1);
    if (!parts.pieces->Has(token.id)) ++extra;
    if (token.special) ++parts.facts.special;
  }
  parts.facts.added = parts.added_tokens.size();
  parts.facts.tokens = parts.pieces->count() + extra;
}

std::string_view Tokenizer::Impl::Piece(int32_t id) const {
  const AddedToken* token = added.Find(id);
  return token != nullptr ? std::string_view(token->content) : parts.pieces->Piece(id);
}

bool Tokenizer::Impl::Has(int32_t id) const {
  return added.Find(id) != nullptr || parts.pieces->Has(id);
}

bool Tokenizer::Impl::IsSpecial(int32_t id) const {
  const AddedToken* token = added.Find(id);
  return token != nullptr && token->special;
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::Create(const Vocabulary& vocabulary) {
  const std::string source = vocabulary.source.empty() ? "tokenizer" : vocabulary.source;
  Json json;
  if (!vocabulary.tokenizer_json.empty()) json = ParseJson(vocabulary.tokenizer_json, source);
  return WithContext(source, [&] {
    TokenizerParts parts = vocabulary.tokenizer_json.empty() ? ReadGgufVocabulary(vocabulary)
                                                             : ReadTokenizerJson(json, vocabulary);
    return Tokenizer(std::make_unique<Impl>(std::move(parts)));
  });
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  CheckInput(text, options);
  EncodeRun run(impl_->parts, impl_->added, options, text.size(), false);
  run.Run(text);
  if (options.add_bos) {
    AddFrame(impl_->parts, &run.ids, [](int32_t id, bool) { return id; });
  }
  return std::move(run.ids);
}

std::vector<EncodedToken> Tokenizer::EncodeWithOffsets(std::string_view text,
                                                       const EncodeOptions& options) const {
  CheckInput(text, options);
  EncodeRun run(impl_->parts, impl_->added, options, text.size(), true);
  run.Run(text);
  if (options.add_bos) {
    AddFrame(impl_->parts, &run.tokens, [&text](int32_t id, bool front) {
      const size_t at = front ? 0 : text.size();
      return EncodedToken{id, at, at};
    });
  }
  return std::move(run.tokens);
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  DecodeStream stream(impl_->parts.decoder);
  std::string out;
  for (const int32_t id : ids) {
    if (!impl_->Has(id) || (skip_special && impl_->IsSpecial(id))) continue;
    stream.Push(impl_->Piece(id), IsAdded(id), &out);
  }
  stream.Flush(&out);
  return out;
}

std::string Tokenizer::TokenBytes(int32_t id) const {
  return impl_->Has(id) ? impl_->parts.decoder.TokenBytes(impl_->Piece(id), IsAdded(id))
                        : std::string();
}

std::string Tokenizer::Piece(int32_t id) const {
  return std::string(impl_->Piece(id));
}

int32_t Tokenizer::TokenId(std::string_view piece) const {
  const int32_t id = impl_->added.Find(piece);
  return id >= 0 ? id : impl_->parts.pieces->Find(piece);
}

bool Tokenizer::IsSpecial(int32_t id) const {
  return impl_->IsSpecial(id);
}
bool Tokenizer::IsAdded(int32_t id) const {
  return impl_->added.Find(id) != nullptr;
}
int32_t Tokenizer::vocab_size() const {
  return impl_->vocab_size;
}
int32_t Tokenizer::bos_id() const {
  return impl_->parts.bos_id;
}
int32_t Tokenizer::eos_id() const {
  return impl_->parts.eos_id;
}

bool Tokenizer::adds_bos() const {
  const auto& prefix = impl_->parts.prefix;
  return std::find(prefix.begin(), prefix.end(), impl_->parts.bos_id) != prefix.end();
}

bool Tokenizer::adds_eos() const {
  const auto& suffix = impl_->parts.suffix;
  return std::find(suffix.begin(), suffix.end(), impl_->parts.eos_id) != suffix.end();
}

const TokenizerFacts& Tokenizer::facts() const {
  return impl_->parts.facts;
}

uint64_t Tokenizer::bytes() const {
  const TokenizerParts& parts = impl_->parts;
  // The added tokens are there twice: as they were read, and to be found.
  return sizeof(Impl) + parts.pieces->bytes() + parts.model->bytes() + 2 * impl_->added.bytes();
}

}  // namespace hadal
