#include "tokenizer/unigram.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/bpe.h"

namespace hadal {
namespace {

// SentencePiece: an unknown character costs this much more than the least probable piece.
constexpr double kUnkPenalty = 10.0;

}  // namespace

Unigram::Unigram(const PieceTable& pieces, std::vector<double> scores,
                 const std::vector<bool>& usable, const UnigramOptions& options)
    : pieces_(pieces),
      scores_(std::move(scores)),
      options_(options),
      byte_ids_(FindByteTokens(pieces)) {
  std::vector<std::pair<std::string, int32_t>> entries;
  double lowest = std::numeric_limits<double>::infinity();
  bool inner_mark = false;
  bool has_mark = false;
  for (int32_t id = 0; id < pieces.size(); ++id) {
    if (!usable[id]) continue;
    lowest = std::min(lowest, scores_[id]);
    const std::string_view piece = pieces.Piece(id);
    entries.emplace_back(std::string(piece), id);
    inner_mark = inner_mark || HasInnerMark(piece);
    has_mark = has_mark || piece == kSpaceMark;
  }
  unk_score_ = (entries.empty() ? 0.0 : lowest) - kUnkPenalty;
  trie_ = ByteTrie(std::move(entries));
  may_cut_ = has_mark && !inner_mark;
}

// path[end]: the best way to reach byte `end`.
void Unigram::FindPath(std::string_view piece, std::vector<ModelScratch::PathNode>* path) const {
  path->assign(piece.size() + 1, {0.0, ModelScratch::kNone, -1});
  const auto offer = [path](size_t start, size_t end, double score, int32_t id) {
    ModelScratch::PathNode& node = (*path)[end];
    if (node.start != ModelScratch::kNone && score <= node.score) return;
    node = {score, static_cast<uint32_t>(start), id};
  };
  for (size_t pos = 0; pos < piece.size();) {
    const double here = (*path)[pos].score;
    const size_t size = DecodeUtf8(piece, pos).size;
    bool has_single = false;
    trie_.Prefixes(piece, pos, [&](size_t length, int32_t id) {
      offer(pos, pos + length, here + scores_[id], id);
      has_single = has_single || length == size;
    });
    if (!has_single) {
      if (options_.unk_id < 0) {
        Fail(ErrorKind::kInvalid,
             "the tokenizer does not know the character \"{}\" and has no unknown token",
             piece.substr(pos, size));
      }
      offer(pos, pos + size, here + unk_score_, options_.unk_id);
    }
    pos += size;
  }
}

void Unigram::EmitUnknown(std::string_view piece, uint32_t begin, uint32_t end,
                          std::vector<ModelToken>* out) const {
  const int32_t known = pieces_.Find(piece.substr(begin, end - begin));
  if (known >= 0) {
    out->push_back({known, begin, end});
    return;
  }
  bool all = options_.byte_fallback;
  for (uint32_t i = begin; all && i < end; ++i) {
    all = byte_ids_[static_cast<uint8_t>(piece[i])] >= 0;
  }
  if (!all) {
    out->push_back({options_.unk_id, begin, end});
    return;
  }
  for (uint32_t i = begin; i < end; ++i) {
    out->push_back({byte_ids_[static_cast<uint8_t>(piece[i])], i, i + 1});
  }
}

void Unigram::Encode(std::string_view piece, ModelScratch* scratch,
                     std::vector<ModelToken>* out) const {
  std::vector<ModelScratch::PathNode>& path = scratch->path;
  FindPath(piece, &path);
  auto end = static_cast<uint32_t>(piece.size());
  std::vector<ModelToken> reversed;
  while (end > 0) {
    reversed.push_back({path[end].id, path[end].start, end});
    end = path[end].start;
  }
  std::reverse(reversed.begin(), reversed.end());
  for (size_t i = 0; i < reversed.size(); ++i) {
    if (reversed[i].id != options_.unk_id) {
      out->push_back(reversed[i]);
      continue;
    }
    const uint32_t begin = reversed[i].begin;
    while (i + 1 < reversed.size() && reversed[i + 1].id == options_.unk_id) ++i;
    EmitUnknown(piece, begin, reversed[i].end, out);
  }
}

}  // namespace hadal
