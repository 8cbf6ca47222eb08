// The body of POST /completions.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/generation_params.h"

namespace hadal::api {

struct CompletionRequest {
  // Text to be tokenized, or token ids as they are.
  using Prompt = std::variant<std::string, std::vector<int32_t>>;

  std::string model;
  std::vector<Prompt> prompts;  // at least one
  std::optional<std::string> suffix;
  bool echo = false;
  bool add_special_tokens = true;
  bool default_max_tokens = false;  // the request named none
  GenerationParams params;          // sampling.logprobs is set; max_tokens always has a value
  std::vector<std::string> warnings;
  std::vector<std::string> unknown;  // members that mean nothing here
};

// Throws ApiError(400).
CompletionRequest ReadCompletionRequest(const OrderedJson& body, const ParamContext& context);

}  // namespace hadal::api
