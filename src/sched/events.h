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
std::string_view Name(FinishReason value);

struct Usage {
  uint32_t prompt_tokens = 0;
  uint32_t cached_tokens = 0;     // of the prompt, taken from KV computed before
  uint32_t generated_tokens = 0;  // the one that ended the text included
  double queue_seconds = 0;       // from submission to the first step
  double prefill_seconds = 0;     // from there to the first generated token
  double decode_seconds = 0;      // from there to the end
};

// Why the KV of a prompt was not taken from the prefix cache beyond some token.
enum class ReuseStop : uint8_t {
  kWholePrompt,     // all of it was known; the last token (or page) is computed for its logits
  kUnknownBlock,    // no text known under this salt goes on like this one
  kEvicted,         // it was known, but its pages have been given to others
  kOtherLength,     // the KV depends on the prompt's length, and none of this length is known
  kWindowPassed,    // pages that a sliding window still needs are gone
  kDisabled,        // the engine reuses nothing
  kPromptLogprobs,  // every prompt token's logits were asked for
};
std::string_view Name(ReuseStop value);  // "whole_prompt", "unknown_block", ...

// What a request waited for when it was not admitted at once; the last cause counts.
enum class AdmissionWait : uint8_t {
  kNone,
  kSequences,  // as many as may run were running
  kPages,      // the KV pages it can be expected to need were not free
  kTurn,       // others were before it
  kPrompt,     // the choice of the same request that computes the prompt
  kBatch,      // static batching: the batch before it, or more requests to fill its own
};
std::string_view Name(AdmissionWait value);  // "none", "sequences", ...

// Why a request took as long as it did; times are in Usage.
struct RequestReport {
  uint32_t reuse_stopped_at = 0;  // prompt tokens taken from the prefix cache
  ReuseStop reuse_stop = ReuseStop::kUnknownBlock;
  uint32_t shared_tokens = 0;  // prompt tokens taken from another choice of the same request
  uint32_t prefill_chunks = 0;
  uint32_t steps = 0;            // that computed something for it
  uint32_t largest_batch = 0;    // sequences in the fullest of those steps
  uint32_t drafted_tokens = 0;   // computed on the chance that they would be generated
  uint32_t accepted_tokens = 0;  // of those, generated
  uint32_t preemptions_recompute = 0;
  uint32_t preemptions_swap = 0;
  uint64_t swapped_bytes = 0;    // out and in
  double preempted_seconds = 0;  // not running, between its first and last step
  AdmissionWait wait = AdmissionWait::kNone;
  // What sustained overload took from it, where the operator allows that; 0: nothing.
  uint32_t asked_max_tokens = 0;
  uint32_t asked_choices = 0;
  bool smaller_chunks = false;
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
  RequestReport report;
  std::optional<Error> error;  // with kError
};

using RequestEvent = std::variant<PromptEvent, TokenEvent, FinishedEvent>;

struct SequenceEvent {
  uint64_t sequence_id = 0;
  RequestEvent event;
};

}  // namespace hadal
