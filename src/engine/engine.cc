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

RequestHandle::~RequestHandle() {
  if (channel_ == nullptr) return;
  // The counter last: ~Engine requires that no handle is left, and the queue is the engine's.
  engine_->commands_.Push(Engine::Abandon{id_, std::move(channel_)});
  engine_->open_handles_.fetch_sub(1);
}

RequestHandle::RequestHandle(RequestHandle&& other) noexcept {
  *this = std::move(other);
}

RequestHandle& RequestHandle::operator=(RequestHandle&& other) noexcept {
  std::swap(engine_, other.engine_);
  std::swap(channel_, other.channel_);
  std::swap(id_, other.id_);
  std::swap(seed_, other.seed_);
  std::swap(max_tokens_, other.max_tokens_);
  std::swap(ended_, other.ended_);
  return *this;
}

std::optional<RequestEvent> RequestHandle::Note(std::optional<RequestEvent> event) {
  if (event && std::holds_alternative<FinishedEvent>(*event)) ended_ = true;
  return event;
}

std::optional<RequestEvent> RequestHandle::Next() {
  if (ended_ || channel_ == nullptr) return std::nullopt;
  return Note(channel_->events.Pop());
}

std::optional<RequestEvent> RequestHandle::NextFor(std::chrono::nanoseconds timeout) {
  if (ended_ || channel_ == nullptr) return std::nullopt;
  return Note(channel_->events.PopFor(timeout));
}

void RequestHandle::Cancel() {
  if (channel_ != nullptr && !ended_) engine_->commands_.Push(Engine::Cancel{id_});
}

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

RequestHandle Engine::Submit(Request request) {
  SequenceRequest sequence = Checked(std::move(request));
  if (open_handles_.fetch_add(1) >= options_.max_open_requests) {
    open_handles_.fetch_sub(1);
    Fail(ErrorKind::kResource, "{} requests are open already; try again later",
         options_.max_open_requests);
  }
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
  commands_.Push(Add{std::move(sequence), handle.channel_.get(), std::chrono::steady_clock::now()});
  return handle;
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
  }
  events_.clear();
}

}  // namespace hadal
