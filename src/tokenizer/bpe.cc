#include "tokenizer/bpe.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"
#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"

namespace hadal {
namespace {

// Up to here, scanning for the best pair beats keeping a heap.
constexpr size_t kShortPiece = 24;

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

size_t UnitSize(std::string_view text, size_t pos, bool byte_level) {
  return byte_level ? 1 : DecodeUtf8(text, pos).size;
}

}  // namespace

bool HasInnerMark(std::string_view piece) {
  size_t pos = 0;
  while (piece.substr(pos).starts_with(kSpaceMark)) pos += kSpaceMark.size();
  return piece.find(kSpaceMark, pos) != std::string_view::npos;
}

std::array<int32_t, 256> FindByteTokens(const PieceTable& pieces) {
  std::array<int32_t, 256> ids{};
  for (int byte = 0; byte < 256; ++byte) {
    ids[byte] = pieces.Find(fmt::format("<0x{:02X}>", byte));
  }
  return ids;
}

void MergeTable::Reserve(size_t n) {
  HADAL_CHECK(used_ == 0);
  size_t size = 16;
  while (size < n * 2) size *= 2;
  slots_.assign(size, Slot{});
}

size_t MergeTable::Index(uint64_t key) const {
  const size_t mask = slots_.size() - 1;
  size_t index = (key * 0x9E3779B97F4A7C15u >> 32) & mask;
  while (slots_[index].key != key && slots_[index].key != kFree) index = (index + 1) & mask;
  return index;
}

void MergeTable::Set(int32_t left, int32_t right, Merge merge) {
  if ((used_ + 1) * 2 > slots_.size()) {
    std::vector<Slot> old = std::move(slots_);
    slots_.assign(std::max<size_t>(16, old.size() * 2), Slot{});
    for (const Slot& slot : old) {
      if (slot.key != kFree) slots_[Index(slot.key)] = slot;
    }
  }
  const uint64_t key = PairKey(left, right);
  Slot& slot = slots_[Index(key)];
  if (slot.key == kFree) ++used_;
  slot = {key, merge};
}

const MergeTable::Merge* MergeTable::Find(int32_t left, int32_t right) const {
  if (slots_.empty()) return nullptr;
  const Slot& slot = slots_[Index(PairKey(left, right))];
  return slot.key == kFree ? nullptr : &slot.merge;
}

Bpe::Bpe(const PieceTable& pieces, const BpeOptions& options) : pieces_(pieces), options_(options) {
  if (options.byte_level) {
    for (int byte = 0; byte < 256; ++byte) {
      byte_ids_[byte] = pieces.Find(ByteToAlphabet(static_cast<uint8_t>(byte)));
    }
  } else {
    byte_ids_ = FindByteTokens(pieces);
  }
}

void Bpe::AddUnit(std::string_view unit, int32_t id) {
  units_.Add(unit, static_cast<int32_t>(unit_ids_.size()));
  unit_ids_.push_back(id);
}

int32_t Bpe::Unit(std::string_view unit) const {
  const int32_t index = units_.Find(unit);
  return index < 0 ? -1 : unit_ids_[index];
}

std::unique_ptr<Bpe> Bpe::FromMerges(const PieceTable& pieces,
                                     std::span<const std::pair<std::string, std::string>> merges,
                                     const BpeOptions& options) {
  std::unique_ptr<Bpe> bpe(new Bpe(pieces, options));
  bpe->merges_.Reserve(merges.size());
  bool inner_mark = false;
  const auto find = [&pieces](const std::string& piece) {
    const int32_t id = pieces.Find(piece);
    if (id < 0) {
      Fail(ErrorKind::kBadFile, "the merges name \"{}\", which is not in the vocabulary", piece);
    }
    return id;
  };
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const std::string merged = left + right;
    inner_mark = inner_mark || HasInnerMark(merged);
    const int32_t left_id = find(left);
    const int32_t right_id = find(right);
    bpe->merges_.Set(left_id, right_id, {static_cast<uint32_t>(rank), find(merged)});
  }
  if (!options.byte_level) {
    for (int32_t id = 0; id < pieces.size(); ++id) {
      const std::string_view piece = pieces.Piece(id);
      if (!piece.empty() && DecodeUtf8(piece, 0).size == piece.size()) bpe->AddUnit(piece, id);
    }
    bpe->may_cut_ = !inner_mark && !options.ignore_merges && bpe->Unit(kSpaceMark) >= 0;
  }
  return bpe;
}

// Registers the characters of `piece`; those that are no pieces get ids from *next_unit on, so that
// they can still take part in merges.
void Bpe::AddUnitsOf(std::string_view piece, int32_t* next_unit) {
  for (size_t pos = 0; pos < piece.size();) {
    const size_t size = DecodeUtf8(piece, pos).size;
    const std::string_view unit = piece.substr(pos, size);
    if (units_.Find(unit) < 0) AddUnit(unit, (*next_unit)++);
    pos += size;
  }
}

// Every way to make `piece` of two pieces or units.
void Bpe::AddSplits(std::string_view piece, MergeTable::Merge merge,
                    const std::vector<bool>& normal) {
  const auto find = [&](std::string_view part) {
    if (DecodeUtf8(part, 0).size == part.size()) return Unit(part);
    const int32_t id = pieces_.Find(part);
    return id >= 0 && normal[id] ? id : -1;
  };
  for (size_t pos = DecodeUtf8(piece, 0).size; pos < piece.size();) {
    const int32_t left = find(piece.substr(0, pos));
    const int32_t right = left < 0 ? -1 : find(piece.substr(pos));
    if (right >= 0) merges_.Set(left, right, merge);
    pos += DecodeUtf8(piece, pos).size;
  }
}

std::unique_ptr<Bpe> Bpe::FromScores(const PieceTable& pieces, std::span<const float> scores,
                                     const std::vector<bool>& normal, const BpeOptions& options) {
  std::unique_ptr<Bpe> bpe(new Bpe(pieces, options));
  std::vector<int32_t> order;
  for (int32_t id = 0; id < pieces.size(); ++id) {
    if (normal[id] && !pieces.Piece(id).empty()) order.push_back(id);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&scores](int32_t a, int32_t b) { return scores[a] > scores[b]; });
  for (const int32_t id : order) {
    const std::string_view piece = pieces.Piece(id);
    if (DecodeUtf8(piece, 0).size == piece.size()) bpe->AddUnit(piece, id);
  }
  int32_t next_unit = pieces.size();
  bool inner_mark = false;
  for (const int32_t id : order) {
    bpe->AddUnitsOf(pieces.Piece(id), &next_unit);
    inner_mark = inner_mark || HasInnerMark(pieces.Piece(id));
  }
  uint32_t rank = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && scores[order[i]] != scores[order[i - 1]]) ++rank;
    bpe->AddSplits(pieces.Piece(order[i]), {rank, order[i]}, normal);
  }
  bpe->may_cut_ = !inner_mark && bpe->Unit(kSpaceMark) >= 0;
  return bpe;
}

void Bpe::Encode(std::string_view piece, ModelScratch* scratch,
                 std::vector<ModelToken>* out) const {
  if (options_.ignore_merges) {
    const int32_t id =
        pieces_.Find(options_.byte_level ? EncodeAlphabet(piece) : std::string(piece));
    if (id >= 0) {
      out->push_back({id, 0, static_cast<uint32_t>(piece.size())});
      return;
    }
  }
  Start(piece, scratch);
  if (scratch->symbols.size() <= kShortPiece) {
    MergeShort(scratch);
  } else {
    MergeLong(scratch);
  }
  Emit(piece, *scratch, out);
}

// One symbol per unit. Unknown units stay, with an id that merges with nothing.
void Bpe::Start(std::string_view piece, ModelScratch* scratch) const {
  auto& symbols = scratch->symbols;
  symbols.clear();
  for (size_t pos = 0; pos < piece.size();) {
    const size_t size = UnitSize(piece, pos, options_.byte_level);
    const int32_t id = options_.byte_level ? byte_ids_[static_cast<uint8_t>(piece[pos])]
                                           : Unit(piece.substr(pos, size));
    const auto index = static_cast<uint32_t>(symbols.size());
    symbols.push_back({id < 0 ? INT32_MAX : id, static_cast<uint32_t>(pos + size),
                       static_cast<uint32_t>(pos), index == 0 ? ModelScratch::kNone : index - 1,
                       index + 1});
    pos += size;
  }
  symbols.back().next = ModelScratch::kNone;
}

void Bpe::MergeShort(ModelScratch* scratch) const {
  auto& symbols = scratch->symbols;
  size_t n = symbols.size();
  std::array<MergeTable::Merge, kShortPiece> merges;  // merges[i]: of symbols i and i + 1
  constexpr MergeTable::Merge kNoMerge = {UINT32_MAX, -1};
  const auto look_up = [&](size_t i) {
    const MergeTable::Merge* merge = merges_.Find(symbols[i].id, symbols[i + 1].id);
    return merge == nullptr ? kNoMerge : *merge;
  };
  for (size_t i = 0; i + 1 < n; ++i) merges[i] = look_up(i);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].id < 0) break;
    symbols[best].id = merges[best].id;
    symbols[best].end = symbols[best + 1].end;
    for (size_t i = best + 1; i + 1 < n; ++i) {
      symbols[i] = symbols[i + 1];
      merges[i] = merges[i + 1];
    }
    --n;
    if (best > 0) merges[best - 1] = look_up(best - 1);
    if (best + 1 < n) merges[best] = look_up(best);
  }
  symbols.resize(n);
}

// Puts the merge of symbol `left` and its neighbour, if there is one, on the heap.
void Bpe::Push(ModelScratch* scratch, uint32_t left) const {
  const auto& symbols = scratch->symbols;
  const uint32_t right = symbols[left].next;
  if (right == ModelScratch::kNone) return;
  const MergeTable::Merge* merge = merges_.Find(symbols[left].id, symbols[right].id);
  if (merge == nullptr) return;
  scratch->heap.push_back(static_cast<uint64_t>(merge->rank) << 32 | left);
  std::push_heap(scratch->heap.begin(), scratch->heap.end(), std::greater<>());
}

void Bpe::MergeLong(ModelScratch* scratch) const {
  auto& symbols = scratch->symbols;
  auto& heap = scratch->heap;
  heap.clear();
  for (uint32_t i = 0; i + 1 < symbols.size(); ++i) {
    const MergeTable::Merge* merge = merges_.Find(symbols[i].id, symbols[i + 1].id);
    if (merge != nullptr) heap.push_back(static_cast<uint64_t>(merge->rank) << 32 | i);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto left = static_cast<uint32_t>(top);
    if (symbols[left].id < 0) continue;
    const uint32_t right = symbols[left].next;
    if (right == ModelScratch::kNone) continue;
    // The pair may have changed since it was queued.
    const MergeTable::Merge* merge = merges_.Find(symbols[left].id, symbols[right].id);
    if (merge == nullptr || merge->rank != top >> 32) continue;
    symbols[left].id = merge->id;
    symbols[left].end = symbols[right].end;
    symbols[left].next = symbols[right].next;
    symbols[right].id = -1;
    if (symbols[left].next != ModelScratch::kNone) symbols[symbols[left].next].previous = left;
    if (symbols[left].previous != ModelScratch::kNone) Push(scratch, symbols[left].previous);
    Push(scratch, left);
  }
  std::erase_if(symbols, [](const ModelScratch::Symbol& symbol) { return symbol.id < 0; });
}

bool Bpe::EmitBytes(std::string_view piece, uint32_t begin, uint32_t end,
                    std::vector<ModelToken>* out) const {
  for (uint32_t i = begin; i < end; ++i) {
    if (byte_ids_[static_cast<uint8_t>(piece[i])] < 0) return false;
  }
  for (uint32_t i = begin; i < end; ++i) {
    out->push_back({byte_ids_[static_cast<uint8_t>(piece[i])], i, i + 1});
  }
  return true;
}

void Bpe::Emit(std::string_view piece, const ModelScratch& scratch,
               std::vector<ModelToken>* out) const {
  bool after_unk = false;
  for (const ModelScratch::Symbol& symbol : scratch.symbols) {
    if (symbol.id < pieces_.size()) {
      out->push_back({symbol.id, symbol.begin, symbol.end});
      after_unk = false;
    } else if (options_.byte_fallback && EmitBytes(piece, symbol.begin, symbol.end, out)) {
      after_unk = false;
    } else if (options_.unk_id >= 0) {
      if (after_unk && options_.fuse_unk) {
        out->back().end = symbol.end;
      } else {
        out->push_back({options_.unk_id, symbol.begin, symbol.end});
      }
      after_unk = true;
    }
  }
}

}  // namespace hadal
