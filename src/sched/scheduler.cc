#include "sched/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sched/step_budget.h"

namespace hadal {
namespace {

template <typename Event>
Event& Emit(uint64_t id, std::vector<SequenceEvent>& events) {
  SequenceEvent& event = events.emplace_back();
  event.sequence_id = id;
  return event.event.emplace<Event>();
}

Usage UsageOf(const Sequence& sequence, TimePoint now) {
  Usage usage;
  usage.prompt_tokens = sequence.prompt_size();
  usage.cached_tokens = sequence.n_cached;
  usage.generated_tokens = static_cast<uint32_t>(sequence.generated.size());
  const bool started = sequence.started();
  usage.queue_seconds = Seconds(sequence.submitted, started ? sequence.admitted : now);
  if (!started) return usage;
  const bool decoded = !sequence.generated.empty();
  usage.prefill_seconds = Seconds(sequence.admitted, decoded ? sequence.first_token : now);
  if (decoded) usage.decode_seconds = Seconds(sequence.first_token, now);
  return usage;
}

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits, KvManager& kv)
    : limits_(limits),
      kv_(kv),
      capacity_(static_cast<uint32_t>(std::min(limits.max_context, kv.MaxTokens()))),
      waiting_(limits.priority_seconds),
      swap_(limits.swap_bytes) {
  if (limits.max_sequences == 0 || limits.max_tokens < limits.max_sequences ||
      limits.max_logit_rows < limits.max_sequences) {
    Fail(ErrorKind::kUsage,
         "a step of {} tokens and {} logit rows cannot hold {} sequences; each needs one of both",
         limits.max_tokens, limits.max_logit_rows, limits.max_sequences);
  }
  plan_.runs.reserve(limits.max_sequences);
  running_.reserve(limits.max_sequences);
  block_tokens_.resize(kv.layout().block_size);
  kept_pages_.resize(kv.layout().groups.size());
}

Scheduler::~Scheduler() {
  for (const auto& sequence : running_) kv_.Close(sequence->pages);
}

void Scheduler::CheckFits(uint64_t prompt_tokens, uint64_t max_tokens) const {
  if (prompt_tokens == 0) Fail(ErrorKind::kInvalid, "the prompt is empty");
  if (prompt_tokens <= capacity_ && max_tokens <= capacity_ - prompt_tokens) return;
  std::string message =
      fmt::format("the prompt has {} tokens and max_tokens is {}; the {} holds {} tokens for both",
                  prompt_tokens, max_tokens,
                  capacity_ == limits_.max_context ? "context" : "KV memory", capacity_);
  if (capacity_ != limits_.max_context) {
    message += fmt::format(" (the context would allow {})", limits_.max_context);
  }
  throw Error(ErrorKind::kInvalid, std::move(message),
              {.context_overflow = {
                   {prompt_tokens, max_tokens, capacity_, capacity_ != limits_.max_context}}});
}

void Scheduler::Add(SequenceRequest request, TimePoint now) {
  std::vector<SequenceRequest> one;
  one.push_back(std::move(request));
  AddChoices(std::move(one), now);
}

void Scheduler::AddChoices(std::vector<SequenceRequest> choices, TimePoint now) {
  HADAL_CHECK(!choices.empty());
  // What was predicted before the cost model knew the machine is not worth comparing.
  constexpr uint64_t kKnowsTheMachine = 20;
  const Forecast forecast = cost_.n_observed() < kKnowsTheMachine ? Forecast() : PredictWait();
  // Whose prompt logprobs are wanted computes every prompt token itself.
  const uint64_t leader = choices.front().prompt_logprobs ? 0 : choices.front().id;
  for (SequenceRequest& request : choices) {
    HADAL_CHECK(!request.prompt.empty() && request.prompt.size() <= capacity_ &&
                request.max_tokens <= capacity_ - request.prompt.size());
    auto sequence = std::make_unique<Sequence>();
    sequence->request = std::move(request);
    sequence->submitted = now;
    sequence->report.asked_max_tokens = sequence->request.asked_max_tokens;
    sequence->report.asked_choices = sequence->request.asked_choices;
    if (leader != 0 && sequence->request.id != leader) {
      sequence->leader = leader;
      sequence->report.wait = AdmissionWait::kPrompt;
      dependents_.push_back(std::move(sequence));
    } else {
      sequence->predicted_wait = forecast.wait / calibration_;
      sequence->predicted_ttft = forecast.wait + sequence->prompt_size() * forecast.prompt_second;
      if (!waiting_.empty()) sequence->report.wait = AdmissionWait::kTurn;
      waiting_.Push(std::move(sequence));
    }
  }
}

bool Scheduler::Cancel(uint64_t id, TimePoint now, std::vector<SequenceEvent>& events,
                       std::optional<Error> error) {
  HADAL_CHECK(plan_.empty());
  const auto matches = [id](const SequencePtr& s) { return s->request.id == id; };
  const auto take_from = [&](std::vector<SequencePtr>& list) -> SequencePtr {
    const auto found = std::find_if(list.begin(), list.end(), matches);
    if (found == list.end()) return nullptr;
    SequencePtr sequence = std::move(*found);
    list.erase(found);
    return sequence;
  };
  SequencePtr sequence = take_from(running_);
  if (sequence == nullptr) sequence = take_from(dependents_);
  if (sequence == nullptr) sequence = waiting_.Remove(id);
  if (sequence == nullptr) return false;
  const FinishReason reason = error ? FinishReason::kError : FinishReason::kCancelled;
  Finish(*sequence, reason, now, events, std::move(error));
  return true;
}

// Lets later texts find the blocks that the last step has filled.
void Scheduler::PublishBlocks(Sequence& sequence) {
  const uint32_t block = kv_.layout().block_size;
  while (kv_.publishes(sequence.pages)) {
    const uint32_t first = kv_.n_published(sequence.pages) * block;
    if (sequence.n_computed - first < block) return;
    for (uint32_t i = 0; i < block; ++i) block_tokens_[i] = sequence.token(first + i);
    kv_.Publish(sequence.pages, block_tokens_);
  }
}

void Scheduler::PlanRun(Sequence& sequence, uint32_t n_tokens, uint32_t n_logits, bool samples) {
  plan_.runs.push_back({&sequence, sequence.n_computed, n_tokens, n_logits, samples});
  plan_.n_tokens += n_tokens;
  plan_.n_logits += n_logits;
}

void Scheduler::PlanDecodes() {
  for (const SequencePtr& sequence : running_) {
    if (sequence->state == SequenceState::kDecode) PlanRun(*sequence, 1, 1, true);
  }
}

void Scheduler::PlanPrompts(TimePoint now) {
  BudgetInput input;
  const Sequence* first = nullptr;
  for (const SequencePtr& sequence : running_) {
    if (sequence->state != SequenceState::kPrefill) continue;
    if (first == nullptr) input.prompt_position = sequence->n_computed;
    if (first == nullptr || sequence->submitted < first->submitted) first = sequence.get();
  }
  if (first == nullptr) return;
  input.decodes = ShapeOfPlan();
  input.degraded = degraded_;
  if (first->generated.empty()) {
    input.tokens_left = first->prompt_size() - first->n_computed;
    input.seconds_left = limits_.ttft_target - Seconds(first->submitted, now);
  }
  const uint32_t most = plan_.n_tokens + PromptBudget(limits_, cost_, input);
  for (const SequencePtr& sequence : running_) {
    if (plan_.n_tokens >= most) break;
    if (sequence->state == SequenceState::kPrefill) {
      const uint32_t before = plan_.n_tokens;
      PlanPrompt(*sequence, most - before);
      const bool cut = sequence->n_computed + (plan_.n_tokens - before) < sequence->size();
      sequence->report.smaller_chunks |= cut && degraded_ && input.decodes.sequences > 0;
    }
  }
}

void Scheduler::PlanPrompt(Sequence& sequence, uint32_t budget) {
  const uint32_t rows_left = limits_.max_logit_rows - plan_.n_logits;
  const uint32_t remaining = sequence.size() - sequence.n_computed;
  uint32_t n = std::min(remaining, budget);
  const bool wants_sample = sequence.request.max_tokens > 0;
  // Rows that were scored before a preemption are not scored again.
  const bool scores = sequence.request.prompt_logprobs && sequence.generated.empty();
  const uint32_t scored =
      scores ? std::max(sequence.n_scored, sequence.n_computed) - sequence.n_computed : 0;
  if (scores) n = std::min(n, scored + rows_left);
  if (n == remaining && wants_sample && rows_left == 0) --n;  // the last waits for a row of logits
  if (n == 0) return;
  const bool samples = n == remaining && wants_sample;
  uint32_t n_logits = samples ? 1 : 0;
  if (scores) n_logits = std::max(n_logits, n - std::min(n, scored));
  PlanRun(sequence, n, n_logits, samples);
}

// When no run grows any more: a window's pages go as soon as the first of a run's tokens has
// passed.
void Scheduler::TakeSlots() {
  for (const PlannedRun& run : plan_.runs) kv_.Append(run.sequence->pages, run.n_tokens);
}

StepShape Scheduler::ShapeOfPlan() const {
  StepShape shape;
  for (const PlannedRun& run : plan_.runs) {
    const auto n_draft = static_cast<uint32_t>(run.draft.size());
    shape += RunShape(run.first_position, run.n_tokens - n_draft);
    for (uint32_t i = 0; i < n_draft; ++i) {
      shape += DraftRowShape(uint64_t{run.first_position} + run.n_tokens - n_draft + i);
    }
  }
  shape.swapped_bytes = plan_.swapped_bytes;
  return shape;
}

const StepPlan& Scheduler::Plan(TimePoint now) {
  HADAL_CHECK(plan_.empty());
  planned_ = now;
  MakeRoomForDecodes(now);
  Admit(now);
  // A static batch decodes when all its prompts are done.
  const bool prompts_first =
      limits_.batching == Batching::kStatic &&
      std::any_of(running_.begin(), running_.end(),
                  [](const SequencePtr& s) { return s->state == SequenceState::kPrefill; });
  if (!prompts_first) PlanDecodes();
  PlanPrompts(now);
  PlanDrafts();
  TakeSlots();
  if (plan_.empty()) {
    HADAL_CHECK(idle() || wake_time_.has_value());
    return plan_;
  }
  plan_.page_ops.assign(kv_.ops().begin(), kv_.ops().end());
  kv_.ForgetOps();
  return plan_;
}

void Scheduler::Commit(std::span<RunResult> results, TimePoint now,
                       std::vector<SequenceEvent>& events) {
  HADAL_CHECK(!plan_.empty() && results.size() == plan_.runs.size());
  cost_.Observe(ShapeOfPlan(), Seconds(planned_, now));
  for (size_t i = 0; i < results.size(); ++i) CommitRun(plan_.runs[i], results[i], now, events);
  plan_.Clear();
  EraseFinished();
}

void Scheduler::EraseFinished() {
  std::erase_if(running_, [](const SequencePtr& sequence) {
    return sequence->state == SequenceState::kFinished;
  });
}

void Scheduler::Abort(const Error& error, TimePoint now, std::vector<SequenceEvent>& events) {
  HADAL_CHECK(!plan_.empty());
  for (const PlannedRun& run : plan_.runs) {
    Finish(*run.sequence, FinishReason::kError, now, events, error);
  }
  plan_.Clear();
  EraseFinished();
  std::vector<SequencePtr> all;
  while (!waiting_.empty() && waiting_.Head()->started()) all.push_back(waiting_.TakeHead());
  for (SequencePtr& sequence : all) {
    DropSwapped(*sequence);
    sequence->n_computed = 0;
    waiting_.Return(std::move(sequence));
  }
  while (!running_.empty()) Preempt(*running_.back(), /*may_swap=*/false, now);
}

void Scheduler::CommitRun(const PlannedRun& run, RunResult& result, TimePoint now,
                          std::vector<SequenceEvent>& events) {
  Sequence& sequence = *run.sequence;
  const SequenceRequest& request = sequence.request;
  RequestReport& report = sequence.report;
  ++report.steps;
  report.prefill_chunks += sequence.state == SequenceState::kPrefill;
  report.largest_batch = std::max(report.largest_batch, static_cast<uint32_t>(plan_.runs.size()));
  const auto n_draft = static_cast<uint32_t>(run.draft.size());
  waiting_.Charge(request.tenant, run.n_tokens - n_draft + (run.samples ? 1.0 : 0.0));
  if (result.error) {
    Finish(sequence, FinishReason::kError, now, events, std::move(result.error));
    return;
  }
  const bool prompt_was_open = sequence.n_computed < sequence.prompt_size();
  sequence.n_computed += run.n_tokens - n_draft;
  if (sequence.state == SequenceState::kDecode) TakeDraft(run, result);
  PublishBlocks(sequence);
  const bool prompt_is_done = sequence.n_computed >= sequence.prompt_size();
  if (prompt_was_open && prompt_is_done) ServeDependents(sequence, now);
  if (!result.prompt_logprobs.empty()) {
    auto& event = Emit<PromptEvent>(request.id, events);
    event.first_position = run.first_position + run.n_tokens - run.n_logits + 1;
    event.logprobs = std::move(result.prompt_logprobs);
  }
  if (request.prompt_logprobs) {
    sequence.n_scored =
        std::max(sequence.n_scored, std::min(sequence.n_computed, sequence.prompt_size()));
  }
  if (run.samples) {
    TakeTokens(sequence, result, now, events);
  } else if (prompt_is_done && request.max_tokens == 0) {
    Finish(sequence, FinishReason::kLength, now, events);
  }
}

// All but the last are in the sequence already.
void Scheduler::TakeTokens(Sequence& sequence, RunResult& result, TimePoint now,
                           std::vector<SequenceEvent>& events) {
  const SequenceRequest& request = sequence.request;
  HADAL_CHECK(!result.tokens.empty());
  const int32_t last = result.tokens.back();
  HADAL_CHECK(last >= 0);
  if (sequence.generated.empty()) {
    sequence.first_token = now;
    NoteFirstToken(sequence, now);
  }
  sequence.state = SequenceState::kDecode;
  sequence.generated.push_back(last);
  const bool stops =
      std::find(request.stop_ids.begin(), request.stop_ids.end(), last) != request.stop_ids.end();
  for (size_t i = 0; i < result.tokens.size(); ++i) {
    auto& event = Emit<TokenEvent>(request.id, events);
    event.token = result.tokens[i];
    if (i < result.logprobs.size()) event.logprobs = std::move(result.logprobs[i]);
    event.ends_text = stops && i + 1 == result.tokens.size();
  }
  if (stops) {
    Finish(sequence, FinishReason::kStop, now, events);
  } else if (sequence.generated.size() == request.max_tokens) {
    Finish(sequence, FinishReason::kLength, now, events);
  }
}

void Scheduler::Finish(Sequence& sequence, FinishReason reason, TimePoint now,
                       std::vector<SequenceEvent>& events, std::optional<Error> error) {
  auto& finished = Emit<FinishedEvent>(sequence.request.id, events);
  finished.reason = reason;
  finished.usage = UsageOf(sequence, now);
  finished.report = sequence.report;
  finished.error = std::move(error);
  if (sequence.state != SequenceState::kWaiting) {
    waiting_.NoteRunning(sequence.request.tenant, -1);
  }
  if (reason != FinishReason::kError && !sequence.generated.empty()) {
    outputs_.Observe(static_cast<uint32_t>(sequence.generated.size()));
  }
  sequence.state = SequenceState::kFinished;
  DropSwapped(sequence);
  kv_.Close(sequence.pages);
  PassLead(sequence);
}

}  // namespace hadal
