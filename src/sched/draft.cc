#include "sched/draft.h"

#include <algorithm>

namespace hadal {
namespace {

constexpr uint32_t kLookBack = 1 << 16;
// Occurrences of the last two tokens that are compared, the latest first.
constexpr uint32_t kCandidates = 64;
// Weight of one guess in the record.
constexpr double kNewest = 0.1;

class Text {
 public:
  Text(std::span<const int32_t> prompt, std::span<const int32_t> generated)
      : prompt_(prompt), generated_(generated) {}
  size_t size() const { return prompt_.size() + generated_.size(); }
  int32_t operator[](size_t i) const {
    return i < prompt_.size() ? prompt_[i] : generated_[i - prompt_.size()];
  }

  // The last place in [first, end) that holds `last`, with `before` before it; 0 when there is
  // none.
  size_t FindLast(int32_t before, int32_t last, size_t first, size_t end) const {
    first = std::max<size_t>(first, 1);
    const size_t split = prompt_.size();
    if (end > split + 1) {
      const size_t from = std::max(first, split + 1) - split;
      const size_t found = FindLast(generated_, before, last, from, end - split);
      if (found != 0) return found + split;
      end = split + 1;
    }
    if (end == split + 1) {
      if (split < first) return 0;
      if ((*this)[split] == last && (*this)[split - 1] == before) return split;
      end = split;
    }
    return FindLast(prompt_, before, last, first, end);
  }

 private:
  static size_t FindLast(std::span<const int32_t> tokens, int32_t before, int32_t last,
                         size_t first, size_t end) {
    constexpr size_t kStride = 64;
    const auto is_here = [&](size_t i) {
      return static_cast<int32_t>(tokens[i] == last) &
             static_cast<int32_t>(tokens[i - 1] == before);
    };
    size_t i = end;
    // Without a way out in the middle, so that it becomes vector code.
    while (i >= first + kStride) {
      int32_t found = 0;
      for (size_t j = i - kStride; j < i; ++j) found |= is_here(j);
      if (found != 0) break;
      i -= kStride;
    }
    while (i > first) {
      if (is_here(--i) != 0) return i;
    }
    return 0;
  }

  std::span<const int32_t> prompt_, generated_;
};

// How many tokens before `end` agree with the last ones of the text.
uint32_t MatchBefore(const Text& text, size_t end) {
  const auto most = static_cast<uint32_t>(std::min<size_t>(end, kLongestMatch));
  uint32_t n = 0;
  while (n < most && text[end - 1 - n] == text[text.size() - 1 - n]) ++n;
  return n;
}

}  // namespace

void FindDraft(std::span<const int32_t> prompt, std::span<const int32_t> generated, uint32_t most,
               Draft& draft) {
  draft.tokens.clear();
  draft.match = 0;
  const Text text(prompt, generated);
  const size_t size = text.size();
  if (most == 0 || size <= kShortestMatch) return;
  const size_t first = size > kLookBack ? size - kLookBack : 0;
  size_t next = 0;  // where the best match goes on
  size_t end = size - 1;
  for (uint32_t n = 0; n < kCandidates && draft.match < kLongestMatch; ++n) {
    end = text.FindLast(text[size - 2], text[size - 1], first, end);
    if (end == 0) break;
    const uint32_t match = MatchBefore(text, end + 1);
    if (match <= draft.match) continue;
    draft.match = match;
    next = end + 1;
  }
  if (draft.match == 0) return;
  for (size_t i = next; draft.tokens.size() < most; ++i) {
    draft.tokens.push_back(i < size ? text[i] : draft.tokens[i - size]);
  }
}

uint32_t DraftRecord::Bucket(uint32_t match) {
  if (match < 4) return match <= kShortestMatch ? 0 : 1;
  return match < 8 ? 2 : 3;
}

void DraftRecord::Note(uint32_t match, bool came_true) {
  double& chance = chances_[Bucket(match)];
  chance += kNewest * ((came_true ? 1.0 : 0.0) - chance);
}

}  // namespace hadal
