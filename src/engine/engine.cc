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
      // Room for a submission, a cancellation and a farewell of every open request.
      commands_(size_t{options.max_open_requests} * 3 + 1) {
  results_.resize(options.limits.max_sequences);
  PublishStats(nullptr);
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
      {.retry_after_seconds = 1});
}

RequestHandle Engine::MakeHandle(SequenceRequest& sequence, std::function<void()> wake) {
  sequence.id = next_id_.fetch_add(1);
  RequestHandle handle;
  handle.engine_ = this;
  handle.id_ = sequence.id;
  handle.seed_ = *sequence.sampling.seed;
  handle.max_tokens_ = sequence.max_tokens;
  // Every event has room, so that the engine never waits for a slow reader: a token each, at most
  // one PromptEvent per prompt token, the end.
  handle.channel_ = std::make_unique<RequestHandle::Channel>(
      size_t{sequence.max_tokens} + (sequence.prompt_logprobs ? sequence.prompt.size() : 0) + 1);
  handle.channel_->wake = std::move(wake);
  handle.channel_->submitted = std::chrono::steady_clock::now();
  return handle;
}

RequestHandle Engine::Submit(Request request) {
  std::vector<RequestHandle> handles = SubmitChoices(std::move(request), 1);
  return std::move(handles.front());
}

std::vector<RequestHandle> Engine::SubmitChoices(Request request, uint32_t n) {
  if (n == 0) Fail(ErrorKind::kInvalid, "n is 0; it must be at least 1");
  std::function<void()> wake = std::move(request.wake);
  SequenceRequest first = Checked(std::move(request));
  Reserve(n);
  std::vector<RequestHandle> handles;
  for (uint32_t i = 0; i < n; ++i) {
    SequenceRequest choice = first;
    choice.choice_index += i;
    handles.push_back(MakeHandle(choice, wake));
    RequestHandle::Channel* channel = handles.back().channel_.get();
    commands_.Push(Add{std::move(choice), channel, channel->submitted});
  }
  return handles;
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(stats_mutex_);
  return stats_;
}

void Engine::Loop() {
  for (;;) {
    if (scheduler_.idle()) {
      std::optional<Command> command = commands_.Pop();
      if (!command) return;
      Handle(std::move(*command));
    }
    while (std::optional<Command> command = commands_.TryPop()) Handle(std::move(*command));
    Step();
  }
}

void Engine::Handle(Command command) {
  if (auto* add = std::get_if<Add>(&command)) {
    channels_[add->request.id] = add->channel;
    scheduler_.Add(std::move(add->request), add->submitted);
  } else if (const auto* cancel = std::get_if<Cancel>(&command)) {
    CancelSequence(cancel->id);
  } else {
    const auto& abandon = std::get<Abandon>(command);
    CancelSequence(abandon.id);
  }
}

void Engine::CancelSequence(uint64_t id) {
  if (!scheduler_.Cancel(id, std::chrono::steady_clock::now(), events_)) return;  // done already
  PublishStats(nullptr);
  Deliver();
}

void Engine::Step() {
  const StepPlan& plan = scheduler_.Plan(std::chrono::steady_clock::now());
  if (plan.empty()) return;
  const std::span<RunResult> results(results_.data(), plan.runs.size());
  for (RunResult& result : results) result.Clear();
  try {
    executor_.Run(plan, results);
  } catch (const Error& error) {
    for (RunResult& result : results) result.error = error;
  }
  PublishStats(&plan);
  scheduler_.Commit(results, std::chrono::steady_clock::now(), events_);
  // Before the events: whoever has seen a request end also sees its pages free.
  PublishStats(nullptr);
  Deliver();
}

void Engine::PublishStats(const StepPlan* plan) {
  const std::lock_guard lock(stats_mutex_);
  if (plan != nullptr) {
    ++stats_.steps;
    for (const PlannedRun& run : plan->runs) {
      const bool decode = run.sequence->state == SequenceState::kDecode;
      stats_.prompt_tokens += decode ? 0 : run.n_tokens;
      stats_.generated_tokens += run.samples;
    }
  }
  stats_.n_waiting = scheduler_.n_waiting();
  stats_.n_running = scheduler_.n_running();
  stats_.kv = kv_.usage();
}

void Engine::Deliver() {
  for (SequenceEvent& event : events_) {
    const auto channel = channels_.find(event.sequence_id);
    HADAL_CHECK(channel != channels_.end());
    RequestHandle::Channel* target = channel->second;
    if (std::holds_alternative<FinishedEvent>(event.event)) channels_.erase(channel);
    HADAL_CHECK(target->events.TryPush(std::move(event.event)));
    if (target->wake && !std::exchange(target->wake_due, true)) woken_.push_back(target);
  }
  events_.clear();
  // Channels die on this thread alone, so those just filled are still there.
  for (RequestHandle::Channel* channel : woken_) {
    channel->wake_due = false;
    channel->wake();
  }
  woken_.clear();
}

}  // namespace hadal
