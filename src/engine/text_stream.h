// Tokens to text on the caller's side, with stop strings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer/incremental_decoder.h"

namespace hadal {

// Cuts a text at the first stop string in it, as the text arrives in pieces. The result does not
// depend on where the pieces end: the stop string that is complete first wins, and among those
// that end together the longest.
class StopFilter {
 public:
  // Throws Error(kInvalid) for an empty stop string or one that is not UTF-8.
  explicit StopFilter(std::vector<std::string> stops);

  // The text that is certain now. Held back is only what may still become a stop string: the
  // longest end of the text that begins one. Empty once stopped().
  std::string Push(std::string_view text);
  // The text ends here: what was held back.
  std::string Flush();

  // The stop string that was found.
  const std::optional<std::string>& stopped() const { return stopped_; }

 private:
  bool FindStop();
  size_t HeldBack() const;

  std::vector<std::string> stops_;
  std::string pending_;
  std::optional<std::string> stopped_;
};

// One generated text: never half a character, special tokens left out (but for those in
// `keep_special`: the markers that a parser of the text wants to see). All pieces put together are
// the same however they came. A value, for one thread; the tokenizer must outlive it.
class TextStream {
 public:
  TextStream(const Tokenizer& tokenizer, std::vector<std::string> stops, bool skip_special = true,
             std::vector<int32_t> keep_special = {});

  // The text that has become certain with this token.
  std::string Push(int32_t token);
  // The rest; nothing may be pushed afterwards.
  std::string Finish();

  // Bytes of text that the tokens so far have brought, held back or not.
  size_t decoded_bytes() const { return decoded_bytes_; }

  // The stop string that ended the text: the request should be cancelled then.
  const std::optional<std::string>& stopped() const { return filter_.stopped(); }

 private:
  IncrementalDecoder decoder_;
  StopFilter filter_;
  size_t decoded_bytes_ = 0;
};

}  // namespace hadal
