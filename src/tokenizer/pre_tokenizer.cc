#include "tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "base/utf8.h"

namespace hadal {
namespace {

struct Part {
  Span range;
  bool is_match;
};

// `matches` and the gaps between them, covering [0, size).
void Cover(const std::vector<Span>& matches, size_t size, bool invert, std::vector<Part>* parts) {
  uint32_t pos = 0;
  for (const Span& match : matches) {
    if (match.begin > pos) parts->push_back({{pos, match.begin}, invert});
    parts->push_back({match, !invert});
    pos = match.end;
  }
  if (pos < size) parts->push_back({{pos, static_cast<uint32_t>(size)}, invert});
}

// A run of parts with equal is_match becomes one.
void MergeRuns(std::vector<Part>* parts) {
  size_t n = 0;
  bool previous = false;
  for (const Part& part : *parts) {
    if (part.is_match == previous && n > 0) {
      (*parts)[n - 1].range.end = part.range.end;
    } else {
      (*parts)[n++] = part;
    }
    previous = part.is_match;
  }
  parts->resize(n);
}

// A match joins the part before it, unless that is a match too.
void MergeWithPrevious(std::vector<Part>* parts) {
  size_t n = 0;
  bool previous = false;
  for (const Part& part : *parts) {
    if (part.is_match && !previous && n > 0) {
      (*parts)[n - 1].range.end = part.range.end;
    } else {
      (*parts)[n++] = part;
    }
    previous = part.is_match;
  }
  parts->resize(n);
}

void MergeWithNext(std::vector<Part>* parts) {
  std::vector<Part> merged;
  bool previous = false;
  for (auto it = parts->rbegin(); it != parts->rend(); ++it) {
    if (it->is_match && !previous && !merged.empty()) {
      merged.back().range.begin = it->range.begin;
    } else {
      merged.push_back(*it);
    }
    previous = it->is_match;
  }
  parts->assign(merged.rbegin(), merged.rend());
}

// Appends what is left of the piece that begins at `offset`.
void Keep(std::vector<Part>* parts, SplitBehavior behavior, uint32_t offset,
          std::vector<Span>* pieces) {
  if (behavior == SplitBehavior::kContiguous) MergeRuns(parts);
  if (behavior == SplitBehavior::kMergedWithPrevious) MergeWithPrevious(parts);
  if (behavior == SplitBehavior::kMergedWithNext) MergeWithNext(parts);
  for (const Part& part : *parts) {
    if (part.range.size() == 0) continue;
    if (behavior == SplitBehavior::kRemoved && part.is_match) continue;
    pieces->push_back({offset + part.range.begin, offset + part.range.end});
  }
}

// Cuts every piece at the matches that find(piece, &matches) gives.
template <typename Find>
void SplitPieces(PieceList* list, SplitBehavior behavior, bool invert, Find&& find) {
  std::vector<Span> pieces;
  pieces.reserve(list->pieces.size());
  std::vector<Span> matches;
  std::vector<Part> parts;
  for (const Span& piece : list->pieces) {
    matches.clear();
    parts.clear();
    find(list->text.text().substr(piece.begin, piece.size()), &matches);
    Cover(matches, piece.size(), invert, &parts);
    Keep(&parts, behavior, piece.begin, &pieces);
  }
  list->pieces = std::move(pieces);
}

template <typename InClass>
void SplitByCharacter(PieceList* list, SplitBehavior behavior, InClass&& in_class) {
  SplitPieces(list, behavior, false, [&in_class](std::string_view text, std::vector<Span>* out) {
    for (size_t pos = 0; pos < text.size();) {
      const Utf8Char c = DecodeUtf8(text, pos);
      if (c.valid && in_class(c.code)) {
        out->push_back({static_cast<uint32_t>(pos), static_cast<uint32_t>(pos + c.size)});
      }
      pos += c.size;
    }
  });
}

void Apply(const SplitStep& step, bool valid, PieceList* list) {
  Regex::Matcher matcher(step.pattern);
  SplitPieces(list, step.behavior, step.invert,
              [&matcher, valid](std::string_view text, std::vector<Span>* out) {
                valid ? matcher.FindAll(text, out) : matcher.FindAllInBytes(text, out);
              });
}

void Apply(const SplitClassStep& step, bool, PieceList* list) {
  SplitByCharacter(list, step.behavior, step.in_class);
}

void Apply(const SplitCharStep& step, bool, PieceList* list) {
  SplitByCharacter(list, step.behavior, [&step](char32_t code) { return code == step.character; });
}

// Writes every piece anew by write(builder, piece).
template <typename Write>
void RewritePieces(PieceList* list, Write&& write) {
  TextBuilder out(list->text);
  std::vector<Span> pieces;
  pieces.reserve(list->pieces.size());
  for (const Span& piece : list->pieces) {
    const size_t begin = out.size();
    write(out, piece);
    pieces.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(out.size())});
  }
  list->text = std::move(out).Finish();
  list->pieces = std::move(pieces);
}

void Apply(const PrefixSpaceStep&, bool, PieceList* list) {
  const std::string_view text = list->text.text();
  RewritePieces(list, [text](TextBuilder& out, Span piece) {
    if (text[piece.begin] != ' ') out.Put(" ", piece.begin, piece.begin);
    out.Copy(piece.begin, piece.end);
  });
}

void Apply(const MetaspaceStep& step, bool, PieceList* list) {
  const AlignedText& source = list->text;
  const std::string_view text = source.text();
  RewritePieces(list, [&](TextBuilder& out, Span piece) {
    const std::string_view content = text.substr(piece.begin, piece.size());
    const bool has_prefix = content.starts_with(' ') || content.starts_with(step.replacement);
    const bool first = step.prepend == MetaspaceStep::Prepend::kFirst &&
                       source.Origin(piece.begin, piece.end).begin == 0;
    if (!has_prefix && (first || step.prepend == MetaspaceStep::Prepend::kAlways)) {
      out.Put(step.replacement, piece.begin, piece.begin);
    }
    for (size_t pos = 0; pos < content.size();) {
      const size_t space = std::min(content.find(' ', pos), content.size());
      out.Copy(piece.begin + pos, piece.begin + space);
      if (space < content.size()) {
        out.Put(step.replacement, piece.begin + space, piece.begin + space + 1);
      }
      pos = space + 1;
    }
  });
  if (!step.split) return;
  const char32_t code = DecodeUtf8(step.replacement, 0).code;
  SplitByCharacter(list, SplitBehavior::kMergedWithNext, [code](char32_t c) { return c == code; });
}

}  // namespace

PieceList PreTokenizer::Run(AlignedText text, bool valid) const {
  PieceList list;
  list.text = std::move(text);
  const auto size = static_cast<uint32_t>(list.text.text().size());
  if (size == 0) return list;
  list.pieces.push_back({0, size});
  for (const PreTokenizerStep& step : steps_) {
    std::visit([&list, valid](const auto& s) { Apply(s, valid, &list); }, step);
  }
  return list;
}

}  // namespace hadal
