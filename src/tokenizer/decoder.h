// From tokens' strings back to text, as the decoder of tokenizer.json says.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/normalizer.h"

namespace hadal {

struct ByteLevelDecode {};     // the byte alphabet; ill-formed UTF-8 becomes U+FFFD
struct ByteFallbackDecode {};  // runs of <0x..>: text if well-formed, else one U+FFFD per byte
struct FuseDecode {};          // from here on there is one single token
struct StripDecode {
  std::string content;  // one character, UTF-8
  size_t start;         // at most so many are taken from the start of a token
  size_t stop;
};
struct MetaspaceDecode {
  std::string replacement;  // one character, UTF-8
  bool drop_in_first;       // in the first token it is dropped, elsewhere a space
};
struct JoinDecode {};  // spaces between the tokens: what happens without a decoder

using DecoderStep = std::variant<ByteLevelDecode, ByteFallbackDecode, FuseDecode, StripDecode,
                                 MetaspaceDecode, JoinDecode, ReplaceStep>;

// Immutable; thread-safe.
class Decoder {
 public:
  void Add(DecoderStep step);

  // The bytes that the token contributes in the middle of a text. `added`: see Push().
  std::string TokenBytes(std::string_view piece, bool added) const;

 private:
  friend class DecodeStream;
  struct Stage {
    DecoderStep step;
    bool fused_input;  // everything before it has become one token
  };
  std::vector<Stage> stages_;
};

// One text being decoded, token by token. A value; `decoder` must outlive it.
class DecodeStream {
 public:
  explicit DecodeStream(const Decoder& decoder);

  // Appends to `out` what is certain once `piece` has come. An `added` token is text already, not
  // written in the byte alphabet: DeepSeek-LLM's "ü" must not be read as the byte 0xFC. (Hugging
  // Face's library does, and gives U+FFFD.)
  void Push(std::string_view piece, bool added, std::string* out);
  // Appends the rest. Nothing may be pushed afterwards.
  void Flush(std::string* out);

 private:
  struct State {
    size_t tokens = 0;     // seen so far
    std::string pending;   // bytes that wait for what comes next
    size_t stripped = 0;   // characters taken from the start of a fused text
    bool started = false;  // the start of a fused text is settled
  };

  void Give(size_t stage, std::string_view token, std::string* out);
  void Finish(size_t stage, std::string* out);

  void Run(const ByteLevelDecode&, size_t stage, std::string_view token, std::string* out);
  void Run(const ByteFallbackDecode&, size_t stage, std::string_view token, std::string* out);
  void Run(const FuseDecode&, size_t stage, std::string_view token, std::string* out);
  void Run(const StripDecode& strip, size_t stage, std::string_view token, std::string* out);
  void Run(const MetaspaceDecode& metaspace, size_t stage, std::string_view token,
           std::string* out);
  void Run(const JoinDecode&, size_t stage, std::string_view token, std::string* out);
  void Run(const ReplaceStep& replace, size_t stage, std::string_view token, std::string* out);
  void StripFused(const StripDecode& strip, size_t stage, std::string_view text, std::string* out);
  void GiveBytes(size_t stage, std::string_view bytes, std::string* out);
  void EndByteRun(size_t stage, std::string* out);

  const Decoder* decoder_;
  std::vector<State> states_;
};

}  // namespace hadal
