#include "api/generation.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "api/api_error.h"
#include "base/check.h"

namespace hadal::api {
namespace {

ChoiceOptions OptionsOf(const GenerationPlan& plan, uint32_t index) {
  ChoiceOptions options{.stop = plan.params.stop,
                        .stop_token_ids = plan.params.stop_token_ids,
                        .include_stop = plan.params.include_stop,
                        .skip_special = plan.params.skip_special,
                        .single_call = plan.single_call,
                        .parser = plan.parser};
  if (options.parser) options.parser->id_seed += fmt::format("/{}", index);
  return options;
}

OrderedJson ReportJson(uint32_t index, const Choice& choice, const FinishedEvent& finished) {
  const Usage& usage = finished.usage;
  const RequestReport& report = finished.report;
  return {{"index", index},
          {"finish_reason", choice.finish_reason()},
          {"completion_tokens", choice.n_tokens()},
          {"queue_seconds", usage.queue_seconds},
          {"waited_for", Name(report.wait)},
          {"prefill_seconds", usage.prefill_seconds},
          {"decode_seconds", usage.decode_seconds},
          {"prefill_chunks", report.prefill_chunks},
          {"smaller_chunks", report.smaller_chunks},
          {"steps", report.steps},
          {"largest_batch", report.largest_batch},
          {"draft_tokens", report.drafted_tokens},
          {"accepted_draft_tokens", report.accepted_tokens},
          {"cached_tokens", usage.cached_tokens},
          {"shared_tokens", report.shared_tokens},
          {"reuse_stopped_at", report.reuse_stopped_at},
          {"reuse_stopped_because", Name(report.reuse_stop)},
          {"preemptions",
           {{"recompute", report.preemptions_recompute},
            {"swap", report.preemptions_swap},
            {"swapped_bytes", report.swapped_bytes},
            {"seconds", report.preempted_seconds}}}};
}

}  // namespace

Generation::Generation(const ServedModel& model, GenerationPlan plan) : plan_(std::move(plan)) {
  const size_t n_choices = plan_.prompts.size() * plan_.params.n;
  if (n_choices > model.engine->max_open_requests()) {
    throw ApiError(400,
                   fmt::format("n: {} prompts of {} choices are {}, more than the {} that this "
                               "server holds at once",
                               plan_.prompts.size(), plan_.params.n, n_choices,
                               model.engine->max_open_requests()),
                   "n", "invalid_value");
  }
  for (uint32_t p = 0; p < plan_.prompts.size(); ++p) Submit(model, p);
  open_ = choices_.size();
  const GenerationParams& params = plan_.params;
  if (open_ < plan_.prompts.size() * params.n) {
    degraded_.push_back(fmt::format("n={}", open_ / plan_.prompts.size()));
  }
  const uint32_t max_tokens = choices_.front().handle.max_tokens();
  if (params.max_tokens && max_tokens < *params.max_tokens) {
    degraded_.push_back(fmt::format("max_tokens={}", max_tokens));
  }
}

void Generation::Submit(const ServedModel& model, uint32_t prompt) {
  const GenerationParams& params = plan_.params;
  Request request;
  request.prompt = plan_.prompts[prompt];
  request.sampling = params.sampling;
  request.max_tokens = params.max_tokens;
  request.eos_ids = model.eos_ids;
  request.stop_token_ids = params.stop_token_ids;
  request.prompt_logprobs = plan_.echo || params.prompt_logprobs.has_value();
  request.prompt_index = prompt;
  request.cache_salt = params.cache_salt;
  request.priority = params.priority;
  request.tenant = plan_.tenant;
  request.wake = plan_.wake;
  if (params.prompt_logprobs) {
    request.sampling.logprobs = std::max(request.sampling.logprobs, *params.prompt_logprobs);
  }
  const auto first = static_cast<uint32_t>(choices_.size());
  for (RequestHandle& handle : model.engine->SubmitChoices(std::move(request), params.n)) {
    const auto index = static_cast<uint32_t>(choices_.size());
    choices_.push_back({std::move(handle),
                        Choice(*model.tokenizer, OptionsOf(plan_, index)),
                        prompt,
                        first,
                        {},
                        std::nullopt});
  }
}

std::vector<Generation::Update> Generation::Poll() {
  std::vector<Update> updates;
  for (uint32_t i = 0; i < choices_.size(); ++i) {
    Running& running = choices_[i];
    if (running.finished) continue;
    Update update;
    update.choice = i;
    while (std::optional<RequestEvent> event = running.handle.TryNext()) {
      Take(running, std::move(*event), update);
    }
    update.ended = running.finished.has_value();
    if (!update.delta.empty() || update.ended) updates.push_back(std::move(update));
  }
  return updates;
}

void Generation::Take(Running& running, RequestEvent event, Update& update) {
  if (auto* prompt = std::get_if<PromptEvent>(&event)) {
    std::move(prompt->logprobs.begin(), prompt->logprobs.end(),
              std::back_inserter(running.prompt_logprobs));
  } else if (const auto* token = std::get_if<TokenEvent>(&event)) {
    const bool stopped = running.choice.stopped();
    update.delta.Append(running.choice.Push(*token));
    if (running.choice.stopped() && !stopped) running.handle.Cancel();
  } else {
    auto& finished = std::get<FinishedEvent>(event);
    if (finished.error && !running.choice.stopped()) {
      failure_ = finished.error;
      throw *finished.error;
    }
    update.delta.Append(running.choice.Finish(finished.reason));
    running.finished = std::move(finished);
    --open_;
  }
}

UsageTotals Generation::usage() const {
  UsageTotals usage;
  for (const std::vector<int32_t>& prompt : plan_.prompts) usage.prompt_tokens += prompt.size();
  for (uint32_t i = 0; i < choices_.size(); ++i) {
    const Running& running = choices_[i];
    usage.completion_tokens += running.choice.n_tokens();
    usage.reasoning_tokens += running.choice.reasoning_tokens();
    // The first choice of a prompt tells what was cached before; the others share its pages.
    if (running.first == i && running.finished)
      usage.cached_tokens += running.finished->usage.cached_tokens;
  }
  return usage;
}

const std::vector<int32_t>& Generation::prompt(uint32_t choice) const {
  return plan_.prompts[choices_[choice].prompt];
}

const std::vector<TokenLogprobs>& Generation::prompt_logprobs(uint32_t choice) const {
  // Computed for the first choice of each prompt alone when the others share its pages.
  return choices_[choices_[choice].first].prompt_logprobs;
}

uint64_t Generation::seed() const {
  return choices_.front().handle.seed();
}

OrderedJson Generation::Reports() const {
  OrderedJson list = OrderedJson::array();
  for (uint32_t i = 0; i < choices_.size(); ++i) {
    if (choices_[i].finished)
      list.push_back(ReportJson(i, choices_[i].choice, *choices_[i].finished));
  }
  return list;
}

}  // namespace hadal::api
