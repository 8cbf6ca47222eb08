#include "sched/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

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
  const bool started = sequence.state != SequenceState::kWaiting;
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
      capacity_(static_cast<uint32_t>(std::min(limits.max_context, kv.MaxTokens()))) {
  if (limits.max_sequences == 0 || limits.max_tokens < limits.max_sequences ||
      limits.max_logit_rows < limits.max_sequences) {
    Fail(ErrorKind::kUsage,
         "a step of {} tokens and {} logit rows cannot hold {} sequences; each needs one of both",
         limits.max_tokens, limits.max_logit_rows, limits.max_sequences);
  }
  plan_.runs.reserve(limits.max_sequences);
  running_.reserve(limits.max_sequences);
  block_tokens_.resize(kv.layout().block_size);
  plan_.fresh_pages.resize(kv.layout().groups.size());
  for (uint32_t g = 0; g < plan_.fresh_pages.size(); ++g) {
    plan_.fresh_pages[g].reserve(kv.pool(g).n_pages());
  }
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
              {.context_overflow = {{prompt_tokens, max_tokens, capacity_}}});
}

void Scheduler::Add(SequenceRequest request, TimePoint now) {
  HADAL_CHECK(!request.prompt.empty() && request.prompt.size() <= capacity_ &&
              request.max_tokens <= capacity_ - request.prompt.size());
  auto sequence = std::make_unique<Sequence>();
  sequence->request = std::move(request);
  sequence->submitted = now;
  waiting_.push_back(std::move(sequence));
}

bool Scheduler::Cancel(uint64_t id, TimePoint now, std::vector<SequenceEvent>& events) {
  HADAL_CHECK(plan_.empty());
  const auto matches = [id](const std::unique_ptr<Sequence>& s) { return s->request.id == id; };
  const auto cancel_in = [&](auto& queue) {
    const auto found = std::find_if(queue.begin(), queue.end(), matches);
    if (found == queue.end()) return false;
    Finish(**found, FinishReason::kCancelled, now, events);
    queue.erase(found);
    return true;
  };
  return cancel_in(running_) || cancel_in(waiting_);
}

// Gives a sequence its pages, those of a known beginning included; false when there is no room yet.
bool Scheduler::OpenPages(Sequence& sequence) {
  const uint32_t key = limits_.kv_depends_on_length ? sequence.prompt_size() : 0;
  PrefixMatch match;
  // At least one token must be computed, for its logits; with prompt_logprobs all of them.
  if (limits_.reuse_prefixes && !sequence.request.prompt_logprobs) {
    match = kv_.Match(sequence.request.prompt, sequence.prompt_size() - 1, key);
  }
  if (!kv_.CanOpen(sequence.max_stored(), match)) {
    // Borrowed pages of a window come on top of its bound; without them it may still fit.
    match = {};
    if (!kv_.CanOpen(sequence.max_stored())) return false;
  }
  sequence.pages = kv_.Open(sequence.max_stored(), match);
  if (limits_.reuse_prefixes) kv_.BeginPublishing(sequence.pages, key);
  sequence.n_computed = sequence.n_cached = match.n_tokens;
  sequence.report.reuse_stopped_at = match.n_tokens;
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

void Scheduler::Admit(TimePoint now) {
  while (!waiting_.empty() && running_.size() < limits_.max_sequences) {
    Sequence& head = *waiting_.front();
    if (!OpenPages(head)) return;
    head.generated.reserve(head.request.max_tokens);
    head.state = SequenceState::kPrefill;
    head.admitted = now;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

void Scheduler::PlanRun(Sequence& sequence, uint32_t n_tokens, uint32_t n_logits, bool samples) {
  kv_.Append(sequence.pages, n_tokens);
  plan_.runs.push_back({&sequence, sequence.n_computed, n_tokens, n_logits, samples});
  plan_.n_tokens += n_tokens;
  plan_.n_logits += n_logits;
}

void Scheduler::PlanPrompt(Sequence& sequence) {
  const uint32_t rows_left = limits_.max_logit_rows - plan_.n_logits;
  const uint32_t remaining = sequence.prompt_size() - sequence.n_computed;
  uint32_t n = std::min(remaining, limits_.max_tokens - plan_.n_tokens);
  const bool prompt_logprobs = sequence.request.prompt_logprobs;
  if (prompt_logprobs) n = std::min(n, rows_left);
  bool completes = n == remaining;
  const bool samples = completes && sequence.request.max_tokens > 0;
  if (samples && rows_left == 0) --n;  // the last token waits for a row of logits
  if (n == 0) return;
  completes = n == remaining;
  const uint32_t n_logits = prompt_logprobs ? n : (completes && samples ? 1 : 0);
  PlanRun(sequence, n, n_logits, completes && samples);
}

const StepPlan& Scheduler::Plan(TimePoint now) {
  HADAL_CHECK(plan_.empty());
  Admit(now);
  for (const auto& sequence : running_) {
    if (sequence->state == SequenceState::kDecode) PlanRun(*sequence, 1, 1, true);
  }
  for (const auto& sequence : running_) {
    if (plan_.n_tokens == limits_.max_tokens) break;
    if (sequence->state == SequenceState::kPrefill) PlanPrompt(*sequence);
  }
  HADAL_CHECK(!plan_.empty() || idle());
  for (uint32_t g = 0; g < plan_.fresh_pages.size(); ++g) {
    const std::span<const uint32_t> fresh = kv_.fresh_pages(g);
    plan_.fresh_pages[g].assign(fresh.begin(), fresh.end());
  }
  kv_.ForgetFresh();
  return plan_;
}

void Scheduler::Commit(std::span<RunResult> results, TimePoint now,
                       std::vector<SequenceEvent>& events) {
  HADAL_CHECK(!plan_.empty() && results.size() == plan_.runs.size());
  for (size_t i = 0; i < results.size(); ++i) CommitRun(plan_.runs[i], results[i], now, events);
  plan_.Clear();
  std::erase_if(running_, [](const std::unique_ptr<Sequence>& sequence) {
    return sequence->state == SequenceState::kFinished;
  });
}

void Scheduler::CommitRun(const PlannedRun& run, RunResult& result, TimePoint now,
                          std::vector<SequenceEvent>& events) {
  Sequence& sequence = *run.sequence;
  const SequenceRequest& request = sequence.request;
  if (result.error) {
    Finish(sequence, FinishReason::kError, now, events, std::move(result.error));
    return;
  }
  sequence.n_computed += run.n_tokens;
  PublishBlocks(sequence);
  if (!result.prompt_logprobs.empty()) {
    auto& event = Emit<PromptEvent>(request.id, events);
    event.first_position = run.first_position + 1;
    event.logprobs = std::move(result.prompt_logprobs);
  }
  if (!run.samples) {
    if (sequence.n_computed == sequence.prompt_size() && request.max_tokens == 0) {
      Finish(sequence, FinishReason::kLength, now, events);
    }
    return;
  }
  HADAL_CHECK(result.token >= 0);
  if (sequence.generated.empty()) sequence.first_token = now;
  sequence.state = SequenceState::kDecode;
  sequence.generated.push_back(result.token);
  const bool stops = std::find(request.stop_ids.begin(), request.stop_ids.end(), result.token) !=
                     request.stop_ids.end();
  auto& event = Emit<TokenEvent>(request.id, events);
  event.token = result.token;
  event.ends_text = stops;
  event.logprobs = std::move(result.logprobs);
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
  sequence.state = SequenceState::kFinished;
  kv_.Close(sequence.pages);
}

}  // namespace hadal
