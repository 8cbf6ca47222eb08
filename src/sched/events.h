// What happens to a request, told to whoever waits for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "sampling/logprobs.h"

namespace hadal {

enum class FinishReason : uint8_t {
  kStop,       // a token (or, found by the caller, a string) that ends the text
  kLength,     // max_tokens reached
  kCancelled,  // asked to stop, or nobody waits any more
  kError,
};

// "stop", "length", "cancelled", "error".
std::string_view Name(FinishReason reason);

struct Usage {
  uint32_t prompt_tokens = 0;
  uint32_t cached_tokens = 0;     // of the prompt, taken from KV computed before
  uint32_t generated_tokens = 0;  // the one that ended the text included
  double queue_seconds = 0;       // from submission to the first step
  double prefill_seconds = 0;     // from there to the first generated token
  double decode_seconds = 0;      // from there to the end
};

struct TokenEvent {
  int32_t token = -1;
  bool ends_text = false;  // one of the request's stop ids: not part of the text
  std::optional<TokenLogprobs> logprobs;
};

// Log-probabilities of prompt tokens first_position, first_position + 1, ... Position 0 has none.
struct PromptEvent {
  uint32_t first_position = 0;
  std::vector<TokenLogprobs> logprobs;
};

// Always the last event of a request.
struct FinishedEvent {
  FinishReason reason = FinishReason::kStop;
  Usage usage;
  std::optional<Error> error;  // with kError
};

using RequestEvent = std::variant<PromptEvent, TokenEvent, FinishedEvent>;

struct SequenceEvent {
  uint64_t sequence_id = 0;
  RequestEvent event;
};

}  // namespace hadal
