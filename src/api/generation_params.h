// The parameters that chat and text completions share: read from a body once, checked by type and
// range, completed by the model's recommendations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/fields.h"
#include "sampling/params.h"
#include "spec/model_spec.h"

namespace hadal::api {

inline constexpr uint32_t kMaxChoices = 128;

struct GenerationParams {
  SamplingParams sampling;
  std::optional<uint32_t> max_tokens;
  uint32_t n = 1;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  bool include_stop = false;  // the stop string or token stays in the text
  bool skip_special = true;
  std::optional<int32_t> prompt_logprobs;
  bool stream = false;
  bool include_usage = false;
  std::string cache_salt;
  int32_t priority = 0;
};

// What the readers know of the model.
struct ParamContext {
  uint32_t vocab = 0;
  ModelSpec::SamplingDefaults defaults;
  // Tokens that a DRY run never crosses unless the request says otherwise, ascending.
  std::vector<int32_t> dry_breakers;
};

// Reads all of GenerationParams but `sampling.logprobs`, whose form differs between the routes.
// Remarks that the client should see go to `warnings`. Throws ApiError(400).
GenerationParams ReadGenerationParams(Fields& fields, const ParamContext& context,
                                      std::vector<std::string>& warnings);

// The values in force, with the names under which a request gives them.
OrderedJson EffectiveValues(const GenerationParams& params);

}  // namespace hadal::api
