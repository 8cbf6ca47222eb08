// A request in the engine: all its prompts and choices, as one stream of updates.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/choice.h"
#include "api/generation_params.h"
#include "api/reply_parts.h"
#include "api/served_model.h"

namespace hadal::api {

struct GenerationPlan {
  std::vector<std::vector<int32_t>> prompts;
  GenerationParams params;
  // Absent: the text stays as it is. The id_seed gets the choice's number.
  std::optional<OutputParserOptions> parser;
  bool single_call = false;  // see ChoiceOptions
  bool echo = false;  // prompt log-probabilities are wanted for a reply that repeats the prompt
  uint32_t tenant = 0;
  std::function<void()> wake;  // see Request::wake
};

// Choices come in the order of their prompts. Destroying it cancels what still runs.
// For one thread at a time; the model must outlive it.
class Generation {
 public:
  // Submits everything or nothing. Throws Error.
  Generation(const ServedModel& model, GenerationPlan plan);

  struct Update {
    uint32_t choice = 0;
    ChoiceDelta delta;
    bool ended = false;  // nothing follows for this choice
  };
  // What has happened since the last call; never waits. Throws Error when a choice failed: the
  // request as a whole has failed then.
  std::vector<Update> Poll();

  bool ended() const { return open_ == 0; }
  bool ended(uint32_t choice) const { return choices_[choice].finished.has_value(); }
  // What Poll has thrown.
  const std::optional<Error>& failure() const { return failure_; }
  size_t n_choices() const { return choices_.size(); }
  const Choice& choice(uint32_t index) const { return choices_[index].choice; }
  UsageTotals usage() const;

  const GenerationParams& params() const { return plan_.params; }
  bool wants_prompt_logprobs() const { return plan_.params.prompt_logprobs.has_value(); }
  const std::vector<int32_t>& prompt(uint32_t choice) const;
  // Of tokens 1, 2, ... of the choice's prompt.
  const std::vector<TokenLogprobs>& prompt_logprobs(uint32_t choice) const;
  uint64_t seed() const;  // in force, given or drawn
  // What overload took from the request: "n=1", "max_tokens=64".
  const std::vector<std::string>& degraded() const { return degraded_; }
  // Times and decisions of each choice that has ended.
  OrderedJson Reports() const;

 private:
  struct Running {
    RequestHandle handle;
    Choice choice;
    uint32_t prompt = 0;
    uint32_t first = 0;  // choice of the same prompt, the one that computes it
    std::vector<TokenLogprobs> prompt_logprobs;
    std::optional<FinishedEvent> finished;
  };
  void Submit(const ServedModel& model, uint32_t prompt);
  void Take(Running& running, RequestEvent event, Update& update);

  GenerationPlan plan_;
  std::vector<Running> choices_;
  size_t open_ = 0;
  std::vector<std::string> degraded_;
  std::optional<Error> failure_;
};

}  // namespace hadal::api
