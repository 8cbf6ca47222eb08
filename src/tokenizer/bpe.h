// Byte pair encoding, over bytes or over characters with byte fallback.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/model.h"
#include "tokenizer/piece_table.h"

namespace hadal {

struct BpeOptions {
  bool byte_level = false;     // pieces are written in the byte alphabet; units are bytes
  bool byte_fallback = false;  // unknown characters become <0x..> tokens
  bool ignore_merges = false;  // a piece that is a token as a whole is not merged at all
  bool fuse_unk = false;
  int32_t unk_id = -1;  // -1: unknown units are dropped, as Hugging Face's library does
};

// Which two ids merge into which, and how early.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank;
    int32_t id;
  };

  void Reserve(size_t n);
  // The last rule for a pair counts.
  void Set(int32_t left, int32_t right, Merge merge);
  const Merge* Find(int32_t left, int32_t right) const;
  size_t size() const { return used_; }
  size_t bytes() const { return slots_.capacity() * sizeof(Slot); }

 private:
  struct Slot {
    uint64_t key = kFree;
    Merge merge{};
  };
  static constexpr uint64_t kFree = ~uint64_t{0};
  size_t Index(uint64_t key) const;

  std::vector<Slot> slots_;  // open addressing; size is a power of two
  size_t used_ = 0;
};

class Bpe : public Model {
 public:
  // `merges`: pairs of pieces in order of rank. `pieces` must outlive the model. Throws
  // Error(kBadFile) when a merge names, or makes, a piece that is not in the vocabulary.
  static std::unique_ptr<Bpe> FromMerges(
      const PieceTable& pieces, std::span<const std::pair<std::string, std::string>> merges,
      const BpeOptions& options);

  // SentencePiece: any two neighbours that together are a piece with normal[id] merge, the
  // highest scores[id] first, among equals the leftmost.
  static std::unique_ptr<Bpe> FromScores(const PieceTable& pieces, std::span<const float> scores,
                                         const std::vector<bool>& normal,
                                         const BpeOptions& options);

  void Encode(std::string_view piece, ModelScratch* scratch,
              std::vector<ModelToken>* out) const override;
  bool MayCutAtMarks() const override { return may_cut_; }
  size_t bytes() const override {
    return sizeof(*this) + merges_.bytes() + units_.bytes() +
           unit_ids_.capacity() * sizeof(int32_t);
  }
  size_t merge_count() const { return merges_.size(); }

 private:
  Bpe(const PieceTable& pieces, const BpeOptions& options);
  void AddUnit(std::string_view unit, int32_t id);
  void AddUnitsOf(std::string_view piece, int32_t* next_unit);
  void AddSplits(std::string_view piece, MergeTable::Merge merge, const std::vector<bool>& normal);
  int32_t Unit(std::string_view unit) const;

  void Start(std::string_view piece, ModelScratch* scratch) const;
  void MergeShort(ModelScratch* scratch) const;
  void MergeLong(ModelScratch* scratch) const;
  void Push(ModelScratch* scratch, uint32_t left) const;
  void Emit(std::string_view piece, const ModelScratch& scratch,
            std::vector<ModelToken>* out) const;
  bool EmitBytes(std::string_view piece, uint32_t begin, uint32_t end,
                 std::vector<ModelToken>* out) const;

  const PieceTable& pieces_;
  BpeOptions options_;
  MergeTable merges_;
  PieceTable units_;                   // characters to units; ids: see unit_ids_
  std::vector<int32_t> unit_ids_;      // unit -> id; ids >= pieces_.size(): no token of its own
  std::array<int32_t, 256> byte_ids_;  // byte-level: of each byte; else of <0x..>; -1: none
  bool may_cut_ = false;
};

// The ids of <0x00> ... <0xFF>, -1 where missing.
std::array<int32_t, 256> FindByteTokens(const PieceTable& pieces);

}  // namespace hadal
