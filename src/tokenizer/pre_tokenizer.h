// Pre-tokenizers: cutting a normalised text into the pieces that the model sees one by one.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tokenizer/aligned_text.h"
#include "tokenizer/regex.h"

namespace hadal {

// What becomes of the matches of a splitting pattern.
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct SplitStep {
  Regex pattern;
  SplitBehavior behavior;
  bool invert;  // what lies between the matches counts as the match
};
// Splits at characters of a class.
struct SplitClassStep {
  bool (*in_class)(char32_t);
  SplitBehavior behavior;
};
struct SplitCharStep {
  char32_t character;
  SplitBehavior behavior;
};
// Puts a space before each piece that does not begin with one (ByteLevel's add_prefix_space).
struct PrefixSpaceStep {};
struct MetaspaceStep {
  enum class Prepend { kFirst, kNever, kAlways };
  std::string replacement;  // one character, UTF-8
  Prepend prepend;
  bool split;
};

using PreTokenizerStep =
    std::variant<SplitStep, SplitClassStep, SplitCharStep, PrefixSpaceStep, MetaspaceStep>;

// A text and the pieces of it that are left, in order, none empty.
struct PieceList {
  AlignedText text;
  std::vector<Span> pieces;
};

// Thread-safe.
class PreTokenizer {
 public:
  template <typename Step>
  void Add(Step step) {
    steps_.emplace_back(std::in_place_type<Step>, std::move(step));
  }
  bool empty() const { return steps_.empty(); }

  // `valid`: the text is well-formed UTF-8. Ill-formed bytes belong to no class and match nothing.
  PieceList Run(AlignedText text, bool valid) const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

}  // namespace hadal
