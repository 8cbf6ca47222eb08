// Who may begin, and with which pages.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sched/scheduler.h"

namespace hadal {

uint32_t Scheduler::PrefixKey(const Sequence& sequence) const {
  return limits_.kv_depends_on_length ? sequence.prompt_size() : 0;
}

// The tokens a table is opened for.
uint32_t Scheduler::MostStored(const Sequence& sequence) const {
  return limits_.batching == Batching::kStatic ? capacity_ : sequence.max_stored();
}

// The tokens whose pages it gets or has promised when it begins.
uint32_t Scheduler::PromisedTokens(const Sequence& sequence) const {
  if (limits_.batching == Batching::kStatic) return capacity_;
  if (limits_.promise == PagePromise::kMaximum) return sequence.max_stored();
  return std::min(sequence.size(), sequence.max_stored());
}

uint32_t Scheduler::ExpectedStored(const Sequence& sequence) const {
  const uint32_t promised = PromisedTokens(sequence);
  if (sequence.request.max_tokens == 0 || limits_.promise == PagePromise::kPrompt) return promised;
  const auto generated = static_cast<uint32_t>(sequence.generated.size());
  const uint32_t output = outputs_.Expected(generated, sequence.request.max_tokens);
  return std::max(promised, std::min(sequence.prompt_size() + output, sequence.max_stored()));
}

// Room for the sequence and for what those that run are expected to take yet. Alone it needs its
// own promise only.
bool Scheduler::HasRoom(const Sequence& sequence, const PrefixMatch& match) {
  if (running_.empty()) return kv_.CanOpen(PromisedTokens(sequence), match);
  for (uint32_t g = 0; g < kept_pages_.size(); ++g) {
    kept_pages_[g] = 0;
    for (const SequencePtr& other : running_) {
      if (!other->pages.open()) continue;
      kept_pages_[g] += kv_.PagesToCome(g, other->pages, ExpectedStored(*other));
    }
  }
  return kv_.CanOpen(ExpectedStored(sequence), match, kept_pages_);
}

// What is known of its tokens; the first time the report says where that ended and why.
PrefixMatch Scheduler::FindPrefix(Sequence& sequence) {
  RequestReport& report = sequence.report;
  if (!limits_.reuse_prefixes) {
    if (!sequence.started()) report.reuse_stop = ReuseStop::kDisabled;
    return {};
  }
  // At least one token must be computed, for its logits; with prompt_logprobs all whose logprobs
  // were not delivered.
  uint32_t most = sequence.size() - 1;
  if (sequence.request.prompt_logprobs) most = std::min(most, sequence.n_scored);
  std::vector<int32_t> with_generated;
  std::span<const int32_t> tokens = sequence.request.prompt;
  if (!sequence.generated.empty()) {
    with_generated = sequence.request.prompt;
    with_generated.insert(with_generated.end(), sequence.generated.begin(),
                          sequence.generated.end());
    tokens = with_generated;
  }
  PrefixMatch match = kv_.Match(tokens, most, PrefixKey(sequence), sequence.request.cache_salt);
  if (sequence.started()) return match;
  report.reuse_stopped_at = match.n_tokens;
  if (sequence.request.prompt_logprobs) {
    report.reuse_stop = ReuseStop::kPromptLogprobs;
    return match;
  }
  switch (match.end) {
    case MatchEnd::kAsked:
      report.reuse_stop = ReuseStop::kWholePrompt;
      break;
    case MatchEnd::kEvicted:
      report.reuse_stop = ReuseStop::kEvicted;
      break;
    case MatchEnd::kWindowPassed:
      report.reuse_stop = ReuseStop::kWindowPassed;
      break;
    case MatchEnd::kUnknown:
      report.reuse_stop = limits_.kv_depends_on_length && match.n_tokens == 0
                              ? ReuseStop::kOtherLength
                              : ReuseStop::kUnknownBlock;
      break;
  }
  return match;
}

bool Scheduler::TryOpen(Sequence& sequence) {
  const PrefixMatch match = FindPrefix(sequence);
  if (!HasRoom(sequence, match)) return false;
  sequence.pages = kv_.Open(MostStored(sequence), PromisedTokens(sequence), match);
  sequence.n_computed = match.n_tokens;
  if (!sequence.started()) {
    sequence.n_cached = match.n_tokens;
    totals_.prefix_query_tokens += sequence.prompt_size();
    totals_.prefix_hit_tokens += match.n_tokens;
  }
  return true;
}

// The last prompt token is computed again: its logits are each choice's own.
bool Scheduler::TryFork(Sequence& sequence, const Sequence& leader) {
  const uint32_t n_tokens = sequence.prompt_size() - 1;
  if (!leader.pages.open() || leader.n_computed < n_tokens || n_tokens == 0) return false;
  const std::optional<PrefixMatch> shared = kv_.Share(leader.pages, n_tokens);
  if (!shared || !HasRoom(sequence, *shared)) return false;
  sequence.pages = kv_.Fork(leader.pages, n_tokens, MostStored(sequence), PromisedTokens(sequence));
  sequence.n_computed = n_tokens;
  sequence.n_cached = leader.n_cached;
  sequence.report.reuse_stopped_at = leader.report.reuse_stopped_at;
  sequence.report.reuse_stop = leader.report.reuse_stop;
  sequence.report.shared_tokens = n_tokens;
  return true;
}

bool Scheduler::TrySwapIn(Sequence& sequence) {
  if (!HasRoom(sequence, {})) return false;
  const SwappedTable& swapped = *sequence.swapped;
  const uint32_t promised = std::max(PromisedTokens(sequence), swapped.n_tokens);
  sequence.pages = kv_.SwapIn(swapped, MostStored(sequence), promised);
  sequence.n_computed = swapped.n_tokens;
  for (const SwappedTable::Group& group : swapped.groups) {
    totals_.swapped_in_pages += group.n_blocks - group.first_live;
  }
  totals_.swapped_in_bytes += swapped.bytes;
  plan_.swapped_bytes += swapped.bytes;
  sequence.report.swapped_bytes += swapped.bytes;
  DropSwapped(sequence);
  return true;
}

bool Scheduler::TryAdmit(Sequence& sequence) {
  if (sequence.swapped) return TrySwapIn(sequence);
  if (sequence.leader != 0 && !sequence.started()) {
    for (const SequencePtr& other : running_) {
      if (other->request.id == sequence.leader && TryFork(sequence, *other)) return true;
    }
  }
  return TryOpen(sequence);
}

// Compares the wait with what was predicted, so that the next prediction is better.
void Scheduler::NoteAdmission(Sequence& sequence, TimePoint now) {
  sequence.admission = next_admission_++;
  sequence.admitted = now;
  sequence.generated.reserve(sequence.request.max_tokens);
  if (limits_.speculation != Speculation::kOff) sequence.draft.tokens.reserve(limits_.max_draft);
  if (sequence.predicted_wait < kWorthComparing) return;
  const double ratio =
      std::clamp(Seconds(sequence.submitted, now) / sequence.predicted_wait, 0.5, 2.0);
  calibration_ += 0.1 * (ratio - calibration_);
}

// Puts a sequence that has its pages among the running ones.
void Scheduler::Start(SequencePtr sequence, TimePoint now) {
  if (sequence->started()) {
    sequence->report.preempted_seconds += Seconds(sequence->preempted, now);
  } else {
    NoteAdmission(*sequence, now);
  }
  if (limits_.reuse_prefixes) {
    kv_.BeginPublishing(sequence->pages, PrefixKey(*sequence), sequence->request.cache_salt);
  }
  const bool decodes = !sequence->generated.empty() && sequence->n_computed + 1 == sequence->size();
  sequence->state = decodes ? SequenceState::kDecode : SequenceState::kPrefill;
  waiting_.NoteRunning(sequence->request.tenant, 1);
  const auto place = std::find_if(running_.begin(), running_.end(), [&](const SequencePtr& other) {
    return other->admission > sequence->admission;
  });
  running_.insert(place, std::move(sequence));
}

// Static batching: nothing begins while a batch runs; the next one begins when it is full or its
// first request has waited long enough.
bool Scheduler::BatchMayBegin(TimePoint now) {
  wake_time_.reset();
  if (!running_.empty() || waiting_.empty()) return false;
  TimePoint first = now;
  waiting_.ForEach([&](const Sequence& s) { first = std::min(first, s.submitted); });
  const TimePoint deadline = first + std::chrono::duration_cast<TimePoint::duration>(
                                         std::chrono::duration<double>(limits_.static_seconds));
  const uint32_t batch = std::min(limits_.static_batch, limits_.max_sequences);
  if (waiting_.size() >= batch || now >= deadline) return true;
  wake_time_ = deadline;
  return false;
}

void Scheduler::Admit(TimePoint now) {
  uint32_t most = limits_.max_sequences;
  if (limits_.batching == Batching::kStatic) {
    if (!BatchMayBegin(now)) {
      NoteWait(AdmissionWait::kBatch);
      return;
    }
    most = std::min(most, limits_.static_batch);
  }
  AdmissionWait wait = AdmissionWait::kSequences;
  while (running_.size() < most && !waiting_.empty()) {
    if (!TryAdmit(*waiting_.Head())) {
      wait = AdmissionWait::kPages;
      break;
    }
    Start(waiting_.TakeHead(), now);
  }
  NoteWait(wait);
}

void Scheduler::NoteWait(AdmissionWait wait) {
  Sequence* head = waiting_.Head();
  if (head != nullptr && !head->started()) head->report.wait = wait;
}

// The prompt's KV is complete: the other choices share it at once where they can, before the leader
// may end; the rest wait like everybody else.
void Scheduler::ServeDependents(Sequence& leader, TimePoint now) {
  if (dependents_.empty()) return;
  std::vector<SequencePtr> rest;
  for (SequencePtr& sequence : dependents_) {
    if (sequence->leader != leader.request.id) {
      rest.push_back(std::move(sequence));
    } else if (running_.size() < limits_.max_sequences && TryFork(*sequence, leader)) {
      Start(std::move(sequence), now);
    } else {
      waiting_.Push(std::move(sequence));
    }
  }
  dependents_ = std::move(rest);
}

// The leader ends before its prompt is computed: the next choice takes its part.
void Scheduler::PassLead(const Sequence& leader) {
  const uint64_t old_id = leader.request.id;
  const auto follows = [old_id](const SequencePtr& s) { return s->leader == old_id; };
  const auto next = std::find_if(dependents_.begin(), dependents_.end(), follows);
  if (next == dependents_.end()) return;
  SequencePtr sequence = std::move(*next);
  dependents_.erase(next);
  sequence->leader = 0;
  for (const SequencePtr& other : dependents_) {
    if (other->leader == old_id) other->leader = sequence->request.id;
  }
  waiting_.Push(std::move(sequence));
}

}  // namespace hadal
