#include "tokenizer/piece_table.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"

namespace hadal {

void PieceTable::Add(std::string_view piece, int32_t id) {
  HADAL_CHECK(id >= 0 && id < kMaxIds && !Has(id));
  if (arena_.size() + piece.size() > UINT32_MAX) {
    Fail(ErrorKind::kBadFile, "the vocabulary's strings take more than 4 GiB");
  }
  if (id >= size()) entries_.resize(static_cast<size_t>(id) + 1);
  entries_[id] = {static_cast<uint32_t>(arena_.size()), static_cast<uint32_t>(piece.size())};
  arena_.append(piece);
  ++count_;
  max_piece_bytes_ = std::max(max_piece_bytes_, piece.size());
  if ((used_ + 1) * 2 > slots_.size()) Grow();
  const size_t slot = Slot(piece);
  if (slots_[slot] < 0) ++used_;
  slots_[slot] = id;
}

int32_t PieceTable::Find(std::string_view piece) const {
  if (slots_.empty() || piece.size() > max_piece_bytes_) return -1;
  return slots_[Slot(piece)];
}

std::string_view PieceTable::Piece(int32_t id) const {
  if (!Has(id)) return {};
  return std::string_view(arena_).substr(entries_[id].offset, entries_[id].length);
}

// Where `piece` stands, or the free slot where it would go.
size_t PieceTable::Slot(std::string_view piece) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = Hash64(std::as_bytes(std::span(piece))) & mask;
  while (slots_[slot] >= 0 && Piece(slots_[slot]) != piece) slot = (slot + 1) & mask;
  return slot;
}

void PieceTable::Grow() {
  std::vector<int32_t> old = std::move(slots_);
  slots_.assign(std::max<size_t>(64, old.size() * 2), -1);
  for (const int32_t id : old) {
    if (id >= 0) slots_[Slot(Piece(id))] = id;
  }
}

}  // namespace hadal
