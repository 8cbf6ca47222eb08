#include "engine/engine.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/check.h"

namespace hadal {
namespace {

void CheckTokens(std::string_view field, std::span<const int32_t> tokens, uint32_t vocab) {
  for (const int32_t token : tokens) {
    if (token >= 0 && static_cast<uint32_t>(token) < vocab) continue;
    Fail(ErrorKind::kInvalid, "{} contains token {}; the vocabulary has tokens 0 to {}", field,
         token, vocab - 1);
  }
}

SchedulerLimits LimitsFor(const EngineOptions& options, const StepExecutor& executor) {
  SchedulerLimits limits = options.limits;
  limits.kv_depends_on_length = executor.kv_depends_on_length();
  limits.swap_bytes = executor.swap_bytes();
  return limits;
}

uint64_t DrawSeed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

Engine::Engine(const EngineOptions& options, KvManager& kv, StepExecutor& executor)
    : options_(options),
      executor_(executor),
      kv_(kv),
      scheduler_(LimitsFor(options, executor), kv),
      gate_({options.breaker, options.max_queue, options.limits.ttft_target}),
      // Room for a submission, a cancellation and a farewell of every open request, and for the
      // end.
      commands_(size_t{options.max_open_requests} * 3 + 2),
      metrics_(options.metrics) {
  results_.resize(options.limits.max_sequences);
  for (RunResult& result : results_) result.tokens.reserve(size_t{options.limits.max_draft} + 1);
  PublishStats();
  thread_ = std::thread([this] { Loop(); });
}

Engine::~Engine() {
  HADAL_CHECK(open_handles_.load() == 0);
  commands_.Close();
  thread_.join();
}

SequenceRequest Engine::Checked(Request request) const {
  Validate(request.sampling, options_.vocab);
  CheckTokens("the prompt", request.prompt, options_.vocab);
  CheckTokens("stop_token_ids", request.stop_token_ids, options_.vocab);
  CheckTokens("eos_ids", request.eos_ids, options_.vocab);
  scheduler_.CheckFits(request.prompt.size(), request.max_tokens.value_or(1));

  SequenceRequest sequence;
  sequence.max_tokens =
      request.max_tokens.value_or(capacity() - static_cast<uint32_t>(request.prompt.size()));
  sequence.prompt = std::move(request.prompt);
  sequence.sampling = std::move(request.sampling);
  if (!sequence.sampling.seed) sequence.sampling.seed = DrawSeed();
  sequence.stop_ids = std::move(request.stop_token_ids);
  if (!sequence.sampling.ignore_eos) {
    sequence.stop_ids.insert(sequence.stop_ids.end(), request.eos_ids.begin(),
                             request.eos_ids.end());
  }
  sequence.prompt_logprobs = request.prompt_logprobs;
  sequence.prompt_index = request.prompt_index;
  sequence.choice_index = request.choice_index;
  sequence.cache_salt = std::move(request.cache_salt);
  sequence.priority = request.priority;
  sequence.tenant = request.tenant;
  return sequence;
}

// Takes `n` places among the open requests.
void Engine::Reserve(uint32_t n) {
  const uint32_t before = open_handles_.fetch_add(n);
  if (before <= options_.max_open_requests && n <= options_.max_open_requests - before) return;
  open_handles_.fetch_sub(n);
  throw Error(
      ErrorKind::kResource,
      fmt::format("{} requests are open, with {} more than the limit of {}; try again later",
                  before, n, options_.max_open_requests),
      {.code = "queue_full", .retry_after_seconds = 1});
}

// The number of choices that overload leaves of `n`; may shorten the answer.
uint32_t Engine::Degrade(SequenceRequest& request, uint32_t n) const {
  const uint32_t level = gate_.state().degradation;
  const DegradationOptions& allowed = options_.degradation;
  if (level >= 3 && allowed.max_tokens > 0 && request.max_tokens > allowed.max_tokens) {
    request.asked_max_tokens = std::exchange(request.max_tokens, allowed.max_tokens);
  }
  if (level >= 2 && allowed.max_choices > 0 && n > allowed.max_choices) {
    request.asked_choices = n;
    return allowed.max_choices;
  }
  return n;
}

RequestHandle Engine::MakeHandle(const SequenceRequest& sequence, std::function<void()> wake) {
  RequestHandle handle;
  handle.engine_ = this;
  handle.id_ = sequence.id;
  handle.seed_ = *sequence.sampling.seed;
  handle.max_tokens_ = sequence.max_tokens;
  // Every event has room, so that the engine never waits for a slow reader: a token each, at most
  // one PromptEvent per prompt token, the end.
  handle.channel_ = std::make_unique<EventChannel>(
      size_t{sequence.max_tokens} + (sequence.prompt_logprobs ? sequence.prompt.size() : 0) + 1);
  handle.channel_->wake = std::move(wake);
  return handle;
}

RequestHandle Engine::Submit(Request request) {
  std::vector<RequestHandle> handles = SubmitChoices(std::move(request), 1);
  return std::move(handles.front());
}

std::vector<RequestHandle> Engine::SubmitChoices(Request request, uint32_t n) {
  if (n == 0) Fail(ErrorKind::kInvalid, "n is 0; it must be at least 1");
  std::function<void()> wake = std::move(request.wake);
  SequenceRequest choice = Checked(std::move(request));
  n = Degrade(choice, n);
  const TimePoint now = std::chrono::steady_clock::now();
  Reserve(n);
  try {
    gate_.Enter(n, choice.prompt.size(), now);
  } catch (const Error&) {
    open_handles_.fetch_sub(n);
    throw;
  }
  Add add;
  add.submitted = now;
  std::vector<RequestHandle> handles;
  for (uint32_t i = 0; i < n; ++i) {
    SequenceRequest& added = add.choices.emplace_back(choice);
    added.id = next_id_.fetch_add(1);
    added.choice_index += i;
    handles.push_back(MakeHandle(added, wake));
    handles.back().channel_->submitted = now;
    add.channels.push_back(handles.back().channel_.get());
  }
  commands_.Push(std::move(add));
  return handles;
}

void Engine::EndAll(Error reason) {
  commands_.Push(Ending{std::move(reason)});
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(stats_mutex_);
  return stats_;
}

// With work at hand it only looks; empty without work: the engine is to end.
std::optional<Engine::Command> Engine::WaitForCommand() {
  if (scheduler_.idle()) return commands_.Pop();
  const std::optional<TimePoint> until = scheduler_.wake_time();
  const TimePoint now = std::chrono::steady_clock::now();
  if (!until || *until <= now) return commands_.TryPop();
  return commands_.PopFor(*until - now);
}

void Engine::Loop() {
  for (;;) {
    std::optional<Command> command = WaitForCommand();
    if (!command && scheduler_.idle()) return;
    for (; command; command = commands_.TryPop()) Handle(std::move(*command));
    Step();
  }
}

void Engine::Handle(Command command) {
  if (auto* add = std::get_if<Add>(&command)) {
    Take(std::move(*add));
  } else if (const auto* cancel = std::get_if<Cancel>(&command)) {
    CancelSequence(cancel->id);
  } else if (const auto* abandon = std::get_if<Abandon>(&command)) {
    CancelSequence(abandon->id);
  } else {
    ending_ = std::move(std::get<Ending>(command).reason);
    CancelAll();
  }
}

void Engine::Take(Add add) {
  for (size_t i = 0; i < add.choices.size(); ++i) {
    channels_[add.choices[i].id] = add.channels[i];
    metrics_.Accepted(add.choices[i]);
  }
  gate_.Taken(static_cast<uint32_t>(add.choices.size()));
  scheduler_.AddChoices(std::move(add.choices), add.submitted);
  if (ending_) CancelAll();
}

void Engine::CancelAll() {
  std::vector<uint64_t> ids;
  for (const auto& [id, channel] : channels_) ids.push_back(id);
  for (const uint64_t id : ids) CancelSequence(id, ending_);
}

void Engine::CancelSequence(uint64_t id, std::optional<Error> error) {
  const TimePoint now = std::chrono::steady_clock::now();
  if (!scheduler_.Cancel(id, now, events_, std::move(error))) return;  // done already
  PublishStats();
  Deliver();
}

void Engine::Step() {
  scheduler_.SetDegraded(gate_.state().degradation > 0);
  const StepPlan& plan = scheduler_.Plan(std::chrono::steady_clock::now());
  if (plan.empty()) return;
  Run(plan);
  // Before the events: whoever has seen a request end also sees its pages free.
  PublishStats();
  Deliver();
}

void Engine::Run(const StepPlan& plan) {
  const std::span<RunResult> results(results_.data(), plan.runs.size());
  for (RunResult& result : results) result.Clear();
  const TimePoint start = std::chrono::steady_clock::now();
  try {
    executor_.Run(plan, results);
  } catch (const Error& error) {
    metrics_.StepFailed(executor_.preparation());
    return scheduler_.Abort(error, std::chrono::steady_clock::now(), events_);
  }
  const TimePoint end = std::chrono::steady_clock::now();
  const PreparationTimes preparation = executor_.preparation();
  metrics_.Step(plan, preparation, Seconds(start, end));
  {
    const std::lock_guard lock(stats_mutex_);
    ++stats_.steps;
    for (size_t i = 0; i < results.size(); ++i) {
      const PlannedRun& run = plan.runs[i];
      const bool decode = run.sequence->state == SequenceState::kDecode;
      stats_.prompt_tokens += decode ? 0 : run.n_tokens;
      stats_.generated_tokens += results[i].tokens.size();
    }
    stats_.step_tokens = plan.n_tokens;
    stats_.batch_size = static_cast<uint32_t>(plan.runs.size());
    stats_.step_seconds = Seconds(start, end);
    stats_.positions_seconds += preparation.positions;
    stats_.page_tables_seconds += preparation.page_tables;
    stats_.ragged_index_seconds += preparation.ragged_index;
  }
  scheduler_.Commit(results, end, events_);
}

void Engine::PublishStats() {
  gate_.Update(scheduler_.PredictWait(), scheduler_.n_waiting(), std::chrono::steady_clock::now());
  const AdmissionGate::State gate = gate_.state();
  const SchedulerTotals& totals = scheduler_.totals();
  EngineStats stats;
  {
    const std::lock_guard lock(stats_mutex_);
    stats_.n_waiting = scheduler_.n_waiting();
    stats_.n_running = scheduler_.n_running();
    stats_.n_swapped = scheduler_.n_swapped();
    stats_.kv = kv_.usage();
    stats_.prefix_query_tokens = totals.prefix_query_tokens;
    stats_.prefix_hit_tokens = totals.prefix_hit_tokens;
    stats_.preemptions_recompute = totals.preemptions_recompute;
    stats_.preemptions_swap = totals.preemptions_swap;
    stats_.drafted_tokens = totals.drafted_tokens;
    stats_.accepted_tokens = totals.accepted_tokens;
    stats_.swapped_out_bytes = totals.swapped_out_bytes;
    stats_.swapped_in_bytes = totals.swapped_in_bytes;
    stats_.swap_used_bytes = scheduler_.swap().used_bytes();
    stats_.swap_bytes = scheduler_.swap().bytes();
    stats_.breaker = gate.breaker;
    stats_.degradation_level = gate.degradation;
    stats_.predicted_wait_seconds = gate.predicted_wait;
    stats = stats_;
  }
  metrics_.Update(stats, totals, gate);
}

void Engine::Deliver() {
  const TimePoint now = std::chrono::steady_clock::now();
  for (SequenceEvent& event : events_) {
    const auto found = channels_.find(event.sequence_id);
    HADAL_CHECK(found != channels_.end());
    EventChannel* channel = found->second;
    if (std::holds_alternative<TokenEvent>(event.event)) metrics_.Token(*channel, now);
    if (const auto* end = std::get_if<FinishedEvent>(&event.event)) {
      metrics_.Finished(*channel, *end, now);
      channels_.erase(found);
    }
    HADAL_CHECK(channel->events.TryPush(std::move(event.event)));
    if (channel->wake && !std::exchange(channel->wake_due, true)) woken_.push_back(channel);
  }
  events_.clear();
  // Channels die on this thread alone, so those just filled are still there.
  for (EventChannel* channel : woken_) {
    channel->wake_due = false;
    channel->wake();
  }
  woken_.clear();
}

}  // namespace hadal
