// Words repeat: the tokens of the pieces met so far in one encoding run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/model.h"

namespace hadal {

// Direct-mapped: a new piece takes the place of the one in its slot. Memory is bounded. For one
// thread.
class PieceCache {
 public:
  static constexpr size_t kMaxPieceBytes = 128;

  // Sized for a text of so many bytes.
  explicit PieceCache(size_t text_bytes);

  // The tokens of `piece`, or an empty span. Valid until Put().
  std::span<const ModelToken> Find(std::string_view piece);
  // Stores tokens of the piece that Find() was just asked for and did not have.
  void Put(std::string_view piece, std::span<const ModelToken> tokens);

 private:
  struct Slot {
    uint64_t hash = 0;
    uint32_t key = 0;
    uint32_t key_size = 0;
    uint32_t first = 0;
    uint32_t count = 0;  // 0: free
  };

  std::vector<Slot> slots_;
  std::string keys_;
  std::vector<ModelToken> tokens_;
  uint64_t hash_ = 0;  // of the last piece asked for
};

}  // namespace hadal
