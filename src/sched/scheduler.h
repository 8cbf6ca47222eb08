// Decides which tokens the next step computes. Pure: no device, no thread, no clock of its own; the
// same calls give the same decisions. Decisions change when a token is computed, never its value.
//
// Each step carries every running decode, then prompt chunks up to a token budget (step_budget.h),
// then drafts of what may come next (drafts.cc). Who is admitted next: waiting_queue.h. A sequence
// is admitted when its tokens fit and what it and the running ones are expected to generate does
// too (admission.cc); when pages run short all the same, the newest sequence of the lowest priority
// gives up its own (preemption.cc). The sequence that was admitted first never does, and alone
// everything that was accepted fits: so every accepted request finishes.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kv/kv_manager.h"
#include "kv/swap_space.h"
#include "sched/cost_model.h"
#include "sched/draft_lengths.h"
#include "sched/events.h"
#include "sched/limits.h"
#include "sched/output_estimator.h"
#include "sched/sequence.h"
#include "sched/step_plan.h"
#include "sched/waiting_queue.h"

namespace hadal {

// Since the start.
struct SchedulerTotals {
  uint64_t prefix_query_tokens = 0;  // of prompts at their first admission
  uint64_t prefix_hit_tokens = 0;
  uint64_t preemptions_recompute = 0;
  uint64_t preemptions_swap = 0;
  uint64_t swapped_out_pages = 0, swapped_in_pages = 0;
  uint64_t swapped_out_bytes = 0, swapped_in_bytes = 0;
  uint64_t swap_failures = 0;                        // for want of swap space
  uint64_t drafted_tokens = 0, accepted_tokens = 0;  // see RequestReport
};

// Used by one thread.
class Scheduler {
 public:
  // `kv` must outlive the scheduler and be used by nobody else.
  // Throws Error(kUsage) when max_tokens or max_logit_rows is below max_sequences: then a step
  // could not hold all decodes.
  Scheduler(const SchedulerLimits& limits, KvManager& kv);
  ~Scheduler();

  // The most tokens, prompt and generated, that one sequence may ever have: the smaller of
  // max_context and the KV pool. Thread-safe.
  uint32_t capacity() const { return capacity_; }

  // Throws Error(kInvalid) with both numbers when prompt + max_tokens can never fit. Thread-safe.
  void CheckFits(uint64_t prompt_tokens, uint64_t max_tokens) const;

  // Puts a request into the queue. REQUIRES: CheckFits passed, a new id.
  void Add(SequenceRequest request, TimePoint now);
  // Requests that differ in their choice_index alone: the first computes the prompt, the others
  // share its KV. When the first goes before that, the next takes its part.
  void AddChoices(std::vector<SequenceRequest> choices, TimePoint now);

  // Ends a sequence wherever it stands and frees its pages; false when the id is unknown (finished
  // already). Not between Plan and Commit. `events` gets the FinishedEvent: kCancelled, or kError
  // with `error`.
  bool Cancel(uint64_t id, TimePoint now, std::vector<SequenceEvent>& events,
              std::optional<Error> error = std::nullopt);

  // The next step. Empty when nothing is to do, or, with static batching, nothing before
  // wake_time(). Valid until Commit or Abort, one of which must follow when it is not empty.
  const StepPlan& Plan(TimePoint now);
  std::optional<TimePoint> wake_time() const { return wake_time_; }

  // Takes the results of the planned step, one per run, and appends the events they cause.
  void Commit(std::span<RunResult> results, TimePoint now, std::vector<SequenceEvent>& events);

  // The step could not be computed at all: its sequences fail, and since nobody knows which page
  // holds what, all others start again from their tokens.
  void Abort(const Error& error, TimePoint now, std::vector<SequenceEvent>& events);

  // Smaller chunks, to spare those who run.
  void SetDegraded(bool degraded) { degraded_ = degraded; }

  // Seconds that a request which came now would wait for its first step (forecast.cc), and the
  // machine time that a request takes of those that wait behind it. All zero without requests.
  struct Forecast {
    double wait = 0;
    double service = 0;
    double prompt_second = 0;  // of machine time, for each token of a prompt
    double lateness = 1;       // 99 of 100 first tokens come within so many times the prediction
    uint32_t free_places = 0;  // requests that could begin at once, as far as places go
  };
  Forecast PredictWait() const;

  bool idle() const { return waiting_.empty() && running_.empty() && dependents_.empty(); }
  // Swapped ones, and choices that wait for their prompt, included.
  size_t n_waiting() const { return waiting_.size() + dependents_.size(); }
  size_t n_running() const { return running_.size(); }
  size_t n_swapped() const { return n_swapped_; }
  const SchedulerTotals& totals() const { return totals_; }
  const SwapExtents& swap() const { return swap_; }
  const CostModel& cost() const { return cost_; }

 private:
  using SequencePtr = std::unique_ptr<Sequence>;

  // admission.cc
  void Admit(TimePoint now);
  void NoteWait(AdmissionWait wait);
  bool BatchMayBegin(TimePoint now);
  bool TryAdmit(Sequence& sequence);
  bool TryFork(Sequence& sequence, const Sequence& leader);
  bool TrySwapIn(Sequence& sequence);
  bool TryOpen(Sequence& sequence);
  bool HasRoom(const Sequence& sequence, const PrefixMatch& match);
  PrefixMatch FindPrefix(Sequence& sequence);
  uint32_t PromisedTokens(const Sequence& sequence) const;
  uint32_t MostStored(const Sequence& sequence) const;
  uint32_t ExpectedStored(const Sequence& sequence) const;
  void NoteAdmission(Sequence& sequence, TimePoint now);
  void NoteFirstToken(const Sequence& sequence, TimePoint now);
  void Start(SequencePtr sequence, TimePoint now);
  void ServeDependents(Sequence& leader, TimePoint now);
  void PassLead(const Sequence& leader);
  uint32_t PrefixKey(const Sequence& sequence) const;

  // preemption.cc
  void MakeRoomForDecodes(TimePoint now);
  Sequence& Victim();
  void Preempt(Sequence& sequence, bool may_swap, TimePoint now);
  bool TrySwapOut(Sequence& sequence);
  bool SwapIsCheaper(const Sequence& sequence) const;
  void DropSwapped(Sequence& sequence);

  // drafts.cc
  void PlanDrafts();
  void GuessNext(Sequence& sequence) const;
  void ExtendRun(PlannedRun& run, uint32_t n_draft);
  void ProbeWhenDue(std::span<DraftChoice> choices);
  void TakeDraft(const PlannedRun& run, const RunResult& result);

  // scheduler.cc
  void PlanRun(Sequence& sequence, uint32_t n_tokens, uint32_t n_logits, bool samples);
  void PlanDecodes();
  void PlanPrompts(TimePoint now);
  void PlanPrompt(Sequence& sequence, uint32_t budget);
  void TakeSlots();
  StepShape ShapeOfPlan() const;
  void CommitRun(const PlannedRun& run, RunResult& result, TimePoint now,
                 std::vector<SequenceEvent>& events);
  void TakeTokens(Sequence& sequence, RunResult& result, TimePoint now,
                  std::vector<SequenceEvent>& events);
  void PublishBlocks(Sequence& sequence);
  void Finish(Sequence& sequence, FinishReason reason, TimePoint now,
              std::vector<SequenceEvent>& events, std::optional<Error> error = std::nullopt);
  void EraseFinished();

  const SchedulerLimits limits_;
  KvManager& kv_;
  const uint32_t capacity_;
  WaitingQueue waiting_;
  std::vector<SequencePtr> running_;     // in order of first admission
  std::vector<SequencePtr> dependents_;  // choices whose leader has not computed the prompt yet
  SwapExtents swap_;
  OutputEstimator outputs_;
  CostModel cost_;
  StepPlan plan_;
  TimePoint planned_{};
  std::optional<TimePoint> wake_time_;
  // Shorter predictions, in seconds, say nothing about how good they are.
  static constexpr double kWorthComparing = 0.05;
  uint64_t next_admission_ = 1;
  size_t n_swapped_ = 0;
  bool degraded_ = false;
  double calibration_ = 1;  // of predicted waits, by those that came true
  double lateness_ = 2;     // see Forecast
  SchedulerTotals totals_;
  std::vector<int32_t> block_tokens_;       // scratch
  std::vector<uint64_t> kept_pages_;        // scratch, per group
  std::vector<DraftChoice> draft_choices_;  // scratch
  uint32_t declined_drafts_ = 0;            // likely ones, since the last that was tried
};

}  // namespace hadal
