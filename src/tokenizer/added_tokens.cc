#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/unicode_class.h"

namespace hadal {
namespace {

bool Intersects(ByteRange range, std::span<const ByteRange> data) {
  const auto it = std::partition_point(
      data.begin(), data.end(), [&range](const ByteRange& d) { return d.end <= range.begin; });
  return it != data.end() && it->begin < range.end;
}

// The start of the character that ends at `end`; end > 0.
size_t PreviousChar(std::string_view text, size_t end) {
  size_t pos = end - 1;
  while (pos > 0 && end - pos < 4 && (static_cast<uint8_t>(text[pos]) & 0xC0) == 0x80) --pos;
  return pos;
}

bool IsSpaceAt(std::string_view text, size_t begin, size_t end) {
  const Utf8Char c = DecodeUtf8(text, begin);
  return c.valid && begin + c.size == end && IsWhiteSpace(c.code);
}

// Where the white space before `end` begins, not before `limit` nor inside data.
size_t StripLeft(const AlignedText& text, size_t limit, size_t end,
                 std::span<const ByteRange> data) {
  while (end > limit) {
    const size_t pos = PreviousChar(text.text(), end);
    if (pos < limit || !IsSpaceAt(text.text(), pos, end)) break;
    if (Intersects(text.Origin(pos, end), data)) break;
    end = pos;
  }
  return end;
}

size_t StripRight(const AlignedText& text, size_t pos, std::span<const ByteRange> data) {
  while (pos < text.text().size()) {
    const size_t end = pos + DecodeUtf8(text.text(), pos).size;
    if (!IsSpaceAt(text.text(), pos, end)) break;
    if (Intersects(text.Origin(pos, end), data)) break;
    pos = end;
  }
  return pos;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer)
    : tokens_(std::move(tokens)) {
  std::vector<std::pair<std::string, int32_t>> raw;
  std::vector<std::pair<std::string, int32_t>> normalized;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    HADAL_CHECK(!token.content.empty() && !by_id_.contains(token.id));
    by_id_.emplace(token.id, i);
    by_content_[token.content] = token.id;
    if (token.normalized) {
      const AlignedText content = normalizer.Run(AlignedText(token.content, 0));
      normalized.emplace_back(std::string(content.text()), static_cast<int32_t>(i));
    } else {
      raw.emplace_back(token.content, static_cast<int32_t>(i));
    }
    if (token.single_word && !word_) {
      word_ = Regex::Compile("^[\\w\\x{200C}\\x{200D}]");
    }
  }
  raw_ = ByteTrie(std::move(raw));
  normalized_ = ByteTrie(std::move(normalized));
}

const AddedToken* AddedTokens::Find(int32_t id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &tokens_[it->second];
}

size_t AddedTokens::bytes() const {
  // A map's entry: its node with key and value, and its bucket.
  constexpr size_t kMapEntry = 4 * sizeof(void*);
  size_t bytes = raw_.bytes() + normalized_.bytes();
  for (const AddedToken& token : tokens_) {
    bytes += sizeof(AddedToken) + sizeof(std::string) + 2 * (token.content.size() + kMapEntry);
  }
  return bytes;
}

int32_t AddedTokens::Find(std::string_view content) const {
  const auto it = by_content_.find(std::string(content));
  return it == by_content_.end() ? -1 : it->second;
}

bool AddedTokens::IsWord(std::string_view text, size_t pos) const {
  const Utf8Char c = DecodeUtf8(text, pos);
  return c.valid && word_->Matches(text.substr(pos, c.size));
}

std::vector<Section> AddedTokens::Split(const AlignedText& aligned, bool normalized,
                                        std::span<const ByteRange> data) const {
  const std::string_view text = aligned.text();
  const ByteTrie& trie = normalized ? normalized_ : raw_;
  std::vector<Section> sections;
  size_t done = 0;
  const auto emit = [&sections](size_t begin, size_t end, int32_t id) {
    sections.push_back({{static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}, id});
  };
  size_t pos = trie.empty() ? text.size() : 0;
  while (pos < text.size()) {
    if (!trie.Starts(static_cast<uint8_t>(text[pos]))) {
      ++pos;
      continue;
    }
    size_t length = 0;
    const AddedToken* token = nullptr;
    trie.Prefixes(text, pos, [&](size_t prefix, int32_t index) {
      if (!data.empty() && Intersects(aligned.Origin(pos, pos + prefix), data)) return;
      length = prefix;
      token = &tokens_[index];
    });
    if (token == nullptr) {
      ++pos;
      continue;
    }
    size_t begin = pos;
    size_t end = pos + length;
    pos = end;  // a match that is refused below still consumes its text, as in the original
    if (token->single_word && ((begin > 0 && IsWord(text, PreviousChar(text, begin))) ||
                               (end < text.size() && IsWord(text, end)))) {
      continue;
    }
    // The white space taken by a token before this one may reach into it.
    if (begin < done) continue;
    if (token->lstrip) begin = StripLeft(aligned, done, begin, data);
    if (token->rstrip) end = StripRight(aligned, end, data);
    if (done < begin) emit(done, begin, -1);
    emit(begin, end, token->id);
    done = end;
  }
  if (done < text.size() || text.empty()) emit(done, text.size(), -1);
  return sections;
}

}  // namespace hadal
