// The vocabulary's strings and their ids, both ways, in two arrays: a quarter of a million pieces
// must not cost a quarter of a million allocations.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hadal {

// Move-only value; thread-safe to read after Finish().
class PieceTable {
 public:
  // No tokenizer is larger; hostile files are refused before they allocate by a made-up id.
  static constexpr int32_t kMaxIds = 1 << 22;

  PieceTable() = default;
  PieceTable(PieceTable&&) = default;
  PieceTable& operator=(PieceTable&&) = default;

  // `id` in [0, kMaxIds), each at most once; the same piece may be given again (the last id wins).
  void Add(std::string_view piece, int32_t id);
  bool Has(int32_t id) const { return id >= 0 && id < size() && entries_[id].length != kAbsent; }

  // -1 when absent.
  int32_t Find(std::string_view piece) const;
  // Empty when absent.
  std::string_view Piece(int32_t id) const;

  // One more than the largest id.
  int32_t size() const { return static_cast<int32_t>(entries_.size()); }
  // Number of ids that have a piece.
  int32_t count() const { return count_; }
  size_t max_piece_bytes() const { return max_piece_bytes_; }
  // Memory it takes.
  size_t bytes() const {
    return arena_.capacity() + entries_.capacity() * sizeof(Entry) +
           slots_.capacity() * sizeof(int32_t);
  }

 private:
  static constexpr uint32_t kAbsent = 0xFFFFFFFF;
  struct Entry {
    uint32_t offset = 0;
    uint32_t length = kAbsent;
  };

  size_t Slot(std::string_view piece) const;
  void Grow();

  std::string arena_;
  std::vector<Entry> entries_;
  std::vector<int32_t> slots_;  // open addressing, -1: free; size is a power of two
  size_t used_ = 0;
  int32_t count_ = 0;
  size_t max_piece_bytes_ = 0;
};

}  // namespace hadal
