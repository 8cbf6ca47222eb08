// SentencePiece's unigram model: the most probable segmentation.
#pragma once

#include <array>
#include <vector>

#include "tokenizer/byte_trie.h"
#include "tokenizer/model.h"
#include "tokenizer/piece_table.h"

namespace hadal {

struct UnigramOptions {
  int32_t unk_id = -1;
  bool byte_fallback = false;
};

class Unigram : public Model {
 public:
  // scores[id]: log probability. Only pieces with usable[id] are looked for; `pieces` must outlive
  // the model.
  Unigram(const PieceTable& pieces, std::vector<double> scores, const std::vector<bool>& usable,
          const UnigramOptions& options);

  // Throws Error(kInvalid) on an unknown character when there is no unk_id.
  void Encode(std::string_view piece, ModelScratch* scratch,
              std::vector<ModelToken>* out) const override;
  bool MayCutAtMarks() const override { return may_cut_; }
  size_t bytes() const override {
    return sizeof(*this) + scores_.capacity() * sizeof(double) + trie_.bytes();
  }

 private:
  void FindPath(std::string_view piece, std::vector<ModelScratch::PathNode>* path) const;
  void EmitUnknown(std::string_view piece, uint32_t begin, uint32_t end,
                   std::vector<ModelToken>* out) const;

  const PieceTable& pieces_;
  std::vector<double> scores_;
  UnigramOptions options_;
  double unk_score_ = 0;
  ByteTrie trie_;
  std::array<int32_t, 256> byte_ids_;
  bool may_cut_ = false;
};

}  // namespace hadal
