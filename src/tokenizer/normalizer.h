// Normalisers of tokenizer.json: what happens to a text before it is cut into words.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tokenizer/aligned_text.h"
#include "tokenizer/regex.h"
#include "tokenizer/unicode_class.h"

namespace hadal {

struct LowercaseStep {};
struct StripAccentsStep {};
struct NmtStep {};  // SentencePiece's: control characters go, odd spaces become ' '
struct PrependStep {
  std::string text;  // put before a text that is not empty
};
struct StripStep {
  bool left;
  bool right;
};
struct ReplaceStep {
  Regex pattern;
  std::string literal;  // when not empty, the pattern is exactly this string
  std::string content;
};

using NormalizerStep = std::variant<NormalForm, LowercaseStep, StripAccentsStep, NmtStep,
                                    PrependStep, StripStep, ReplaceStep>;

// The positions of all matches of a ReplaceStep.
void FindReplacements(const ReplaceStep& step, std::string_view text, std::vector<Span>* matches);

// Thread-safe. Ill-formed UTF-8 passes through unchanged.
class Normalizer {
 public:
  template <typename Step>
  void Add(Step step) {
    steps_.emplace_back(std::in_place_type<Step>, std::move(step));
  }
  bool empty() const { return steps_.empty(); }

  AlignedText Run(AlignedText text) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace hadal
