// The engine for callers that simply wait for a text.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/text_stream.h"

namespace hadal {

struct GenerateOptions {
  std::vector<std::string> stop_strings;
  bool skip_special = true;  // leave special tokens out of the text
  // Called with each piece of text as it becomes certain; never empty, never half a character.
  std::function<void(std::string_view text)> on_text;
  // Called for every token, the one that ends the text included.
  std::function<void(const TokenEvent& token)> on_token;
  std::function<void(const PromptEvent& prompt)> on_prompt;
  // Asked now and then, also while the prompt is computed; true stops the request.
  std::function<bool()> cancelled;
};

struct GenerateResult {
  std::string text;  // up to the stop string or token
  std::vector<int32_t> tokens;
  FinishReason reason = FinishReason::kStop;
  std::optional<std::string> stop_string;  // that ended the text
  Usage usage;
  RequestReport report;
  uint64_t seed = 0;
};

// Submits and waits for the end. Throws Error: refused by Submit, or failed while running.
GenerateResult Generate(Engine& engine, const Tokenizer& tokenizer, Request request,
                        const GenerateOptions& options);

}  // namespace hadal
