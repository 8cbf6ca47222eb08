// What a caller asks of the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sampling/params.h"

namespace hadal {

struct Request {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  std::optional<uint32_t> max_tokens;  // absent: as many as the context still holds
  std::vector<int32_t> eos_ids;        // the model's own end tokens; see sampling.ignore_eos
  std::vector<int32_t> stop_token_ids;
  bool prompt_logprobs = false;  // PromptEvents with sampling.logprobs entries per prompt token
  uint32_t prompt_index = 0;     // parts of the random numbers' key: a request with several
  uint32_t choice_index = 0;     // prompts or choices is several of these

  std::string cache_salt;  // KV is shared only with requests of the same salt
  int32_t priority = 0;    // lower: sooner, among the requests of one tenant
  uint32_t tenant = 0;     // tenants share the machine evenly
  // Called by the engine thread after events were added to the request's channel, the last time
  // after the FinishedEvent (also when the handle is gone by then). Must be cheap and not throw.
  std::function<void()> wake;
};

}  // namespace hadal
