// Decides which tokens the next step computes. Pure: no device, no thread, no clock of its own.
//
// Each step carries every running decode and then prompt chunks, first come first served, up to a
// token budget. A sequence is admitted when the KV pages for its whole prompt and all its
// max_tokens can be promised to it; admission is strictly in order of arrival, so a large request
// is never overtaken for ever.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "kv/kv_manager.h"
#include "sched/events.h"
#include "sched/sequence.h"
#include "sched/step_plan.h"

namespace hadal {

struct SchedulerLimits {
  uint32_t max_tokens = 512;     // per step
  uint32_t max_sequences = 64;   // running at once
  uint32_t max_logit_rows = 64;  // per step
  uint64_t max_context = 4096;   // prompt and generated tokens of one sequence
  bool reuse_prefixes = true;    // KV of earlier texts that begin alike
  // The values in the KV depend on the prompt's length (RopeTable::length_dependent): then only
  // prompts of equal length can share them.
  bool kv_depends_on_length = false;
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

  // Puts a request at the end of the queue. REQUIRES: CheckFits passed, a new id.
  void Add(SequenceRequest request, TimePoint now);

  // Ends a sequence wherever it stands and frees its pages; false when the id is unknown (finished
  // already). Not between Plan and Commit. `events` gets the FinishedEvent.
  bool Cancel(uint64_t id, TimePoint now, std::vector<SequenceEvent>& events);

  // The next step; empty when nothing is to do. Valid until Commit, which must follow when it is
  // not empty.
  const StepPlan& Plan(TimePoint now);

  // Takes the results of the planned step, one per run, and appends the events they cause.
  void Commit(std::span<RunResult> results, TimePoint now, std::vector<SequenceEvent>& events);

  bool idle() const { return waiting_.empty() && running_.empty(); }
  size_t n_waiting() const { return waiting_.size(); }
  size_t n_running() const { return running_.size(); }

 private:
  void Admit(TimePoint now);
  bool OpenPages(Sequence& sequence);
  void PublishBlocks(Sequence& sequence);
  void PlanRun(Sequence& sequence, uint32_t n_tokens, uint32_t n_logits, bool samples);
  void PlanPrompt(Sequence& sequence);
  void CommitRun(const PlannedRun& run, RunResult& result, TimePoint now,
                 std::vector<SequenceEvent>& events);
  void Finish(Sequence& sequence, FinishReason reason, TimePoint now,
              std::vector<SequenceEvent>& events, std::optional<Error> error = std::nullopt);

  const SchedulerLimits limits_;
  KvManager& kv_;
  const uint32_t capacity_;
  std::deque<std::unique_ptr<Sequence>> waiting_;   // in order of arrival
  std::vector<std::unique_ptr<Sequence>> running_;  // in order of admission
  StepPlan plan_;
  std::vector<int32_t> block_tokens_;  // scratch
};

}  // namespace hadal
