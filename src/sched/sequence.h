// One text being computed: its tokens, its KV pages and where it stands.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kv/kv_manager.h"
#include "sampling/params.h"
#include "sched/draft.h"
#include "sched/events.h"

namespace hadal {

using TimePoint = std::chrono::steady_clock::time_point;

inline double Seconds(TimePoint from, TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

// waiting -> prefill -> decode -> finished; back to waiting by preemption; finished from anywhere
// by Cancel or an error. Prefill computes all tokens there are: after a preemption by recomputation
// the generated ones too.
enum class SequenceState : uint8_t { kWaiting, kPrefill, kDecode, kFinished };

struct SequenceRequest {
  uint64_t id = 0;
  std::vector<int32_t> prompt;    // not empty
  SamplingParams sampling;        // valid, with a seed
  uint32_t max_tokens = 0;        // 0: the prompt alone is computed
  std::vector<int32_t> stop_ids;  // end the text once min_tokens are generated
  bool prompt_logprobs = false;   // sampling.logprobs entries for each prompt token
  uint32_t prompt_index = 0, choice_index = 0;
  std::string cache_salt;  // KV is shared only with requests of the same salt
  int32_t priority = 0;    // lower: sooner, among the requests of one tenant
  uint32_t tenant = 0;     // tenants share the machine evenly
  uint32_t asked_max_tokens = 0, asked_choices = 0;  // see RequestReport
};

// Owned by the Scheduler; the runner reads it.
struct Sequence {
  SequenceRequest request;
  SequenceState state = SequenceState::kWaiting;
  std::vector<int32_t> generated;
  PageTable pages;
  uint32_t n_computed = 0;  // tokens whose KV is stored, [0, prompt + generated)
  uint32_t n_cached = 0;    // of the prompt, not computed for this sequence when it began
  uint32_t n_scored = 0;    // prompt rows whose logprobs were delivered

  TimePoint submitted, admitted, first_token;
  RequestReport report;

  // The scheduler's own.
  uint64_t admission = 0;  // number of the first admission; 0: none yet
  double queue_key = 0;    // place among its tenant's requests
  uint64_t leader = 0;     // the choice of the same request that computes the prompt; 0: none
  std::optional<SwappedTable> swapped;
  TimePoint preempted;  // last time
  double predicted_wait = 0;
  double predicted_ttft = 0;
  Draft draft;  // of the tokens that may come next
  DraftRecord draft_record;

  bool started() const { return admission > 0; }
  uint32_t prompt_size() const { return static_cast<uint32_t>(request.prompt.size()); }
  uint32_t size() const { return prompt_size() + static_cast<uint32_t>(generated.size()); }
  int32_t token(uint32_t position) const {
    return position < prompt_size() ? request.prompt[position]
                                    : generated[position - prompt_size()];
  }
  // The KV slots it can come to need: the last generated token is never stored.
  uint32_t max_stored() const {
    return prompt_size() + (request.max_tokens > 0 ? request.max_tokens - 1 : 0);
  }
};

}  // namespace hadal
