// For tests: a scheduler with a fake clock whose "model" answers token 1 unless told otherwise.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "sched/scheduler.h"

namespace hadal {

inline KvLayout LayoutOf(const std::vector<uint32_t>& windows) {
  ModelSpec spec;
  spec.n_layers = static_cast<uint32_t>(windows.size());
  for (const uint32_t window : windows) spec.layers.push_back({.window = window});
  spec.attention = {.n_heads = 1, .n_kv_heads = 1, .head_dim = 4};
  return MakeKvLayout(spec, DType::kF32, 16);
}

inline SequenceRequest MakeRequest(uint64_t id, uint32_t prompt, uint32_t max_tokens) {
  SequenceRequest request;
  request.id = id;
  // Begins with its id: requests share nothing unless a test wants it.
  for (uint32_t i = 0; i < prompt; ++i) request.prompt.push_back(static_cast<int32_t>(id + i % 7));
  request.max_tokens = max_tokens;
  request.stop_ids = {99};
  return request;
}

struct FakeStack {
  explicit FakeStack(SchedulerLimits limits = {}, uint32_t pages = 64)
      : kv(LayoutOf({0}), {pages}, limits.max_tokens), scheduler(limits, kv) {}

  void Add(SequenceRequest request) { scheduler.Add(std::move(request), now); }

  // Plans, answers and commits; returns the ids of the runs.
  std::vector<uint64_t> Step() {
    const StepPlan& plan = scheduler.Plan(now);
    std::vector<uint64_t> ids;
    ops.assign(plan.page_ops.begin(), plan.page_ops.end());
    std::vector<RunResult> results(plan.runs.size());
    for (size_t i = 0; i < results.size(); ++i) {
      const PlannedRun& run = plan.runs[i];
      ids.push_back(run.sequence->request.id);
      if (run.samples) Answer(run, results[i]);
    }
    n_tokens = plan.n_tokens;
    n_logits = plan.n_logits;
    drafts.clear();
    for (const PlannedRun& run : plan.runs) {
      drafts.push_back(static_cast<uint32_t>(run.draft.size()));
    }
    now += seconds ? std::chrono::duration_cast<TimePoint::duration>(
                         std::chrono::duration<double>(seconds(plan)))
                   : std::chrono::milliseconds(100);
    if (!plan.empty()) scheduler.Commit(results, now, events);
    return ids;
  }
  // Row after row, as far as the draft comes true.
  void Answer(const PlannedRun& run, RunResult& result) const {
    for (uint32_t i = 0;; ++i) {
      int32_t token = answer ? answer(run) : 1;
      if (text) token = text(run.sequence->request.id, run.sequence->size() + i);
      result.tokens.push_back(token);
      if (i == run.draft.size() || token != run.draft[i]) return;
    }
  }
  const FinishedEvent* Finished(uint64_t id) const {
    for (const SequenceEvent& event : events) {
      const auto* end = std::get_if<FinishedEvent>(&event.event);
      if (end != nullptr && event.sequence_id == id) return end;
    }
    return nullptr;
  }
  uint32_t Generated(uint64_t id) const {
    return static_cast<uint32_t>(std::count_if(events.begin(), events.end(), [id](const auto& e) {
      return e.sequence_id == id && std::holds_alternative<TokenEvent>(e.event);
    }));
  }
  std::vector<int32_t> Tokens(uint64_t id) const {
    std::vector<int32_t> tokens;
    for (const SequenceEvent& event : events) {
      const auto* token = std::get_if<TokenEvent>(&event.event);
      if (token != nullptr && event.sequence_id == id) tokens.push_back(token->token);
    }
    return tokens;
  }
  bool AllFree() const {
    const KvUsage usage = kv.usage();
    return usage.used_pages + usage.promised_pages + usage.unused_slots == 0 &&
           scheduler.swap().used_bytes() == 0;
  }

  TimePoint now{};
  KvManager kv;
  Scheduler scheduler;
  std::vector<SequenceEvent> events;
  std::vector<PageOp> ops;  // of the last step
  uint32_t n_tokens = 0;    // of the last step
  uint32_t n_logits = 0;
  std::vector<uint32_t> drafts;                    // tokens, one per run
  std::function<double(const StepPlan&)> seconds;  // that a step takes
  std::function<int32_t(const PlannedRun&)> answer;
  std::function<int32_t(uint64_t id, uint32_t position)> text;  // goes before `answer`
};

}  // namespace hadal
