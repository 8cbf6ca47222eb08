// What turns one piece of text into tokens.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace hadal {

// A token and the bytes [begin, end) of the piece that it stands for.
struct ModelToken {
  int32_t id;
  uint32_t begin;
  uint32_t end;
};

// Memory that one encoding run reuses from piece to piece.
struct ModelScratch {
  struct Symbol {
    int32_t id;  // -1: merged into the one on its left
    uint32_t end;
    uint32_t begin;
    uint32_t previous;  // index; kNone at the borders
    uint32_t next;
  };
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  struct PathNode {
    double score;
    uint32_t start;  // kNone: not reached
    int32_t id;
  };

  std::vector<Symbol> symbols;
  std::vector<uint64_t> heap;
  std::vector<PathNode> path;
};

// Immutable; thread-safe.
class Model {
 public:
  virtual ~Model() = default;

  // Appends the tokens of `piece` (not empty). Takes n log n time.
  virtual void Encode(std::string_view piece, ModelScratch* scratch,
                      std::vector<ModelToken>* out) const = 0;

  // True when no token can begin before, and end behind, a border between another character and
  // "▁": a piece may then be cut there without changing the result.
  virtual bool MayCutAtMarks() const = 0;

  // Memory it takes, without the pieces.
  virtual size_t bytes() const = 0;
};

// SentencePiece's sign for a space.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// Does `piece` hold a "▁" behind another character?
bool HasInnerMark(std::string_view piece);

}  // namespace hadal
