#include "engine/engine_metrics.h"

namespace hadal {

void EngineMetrics::Accepted(const SequenceRequest& request) {
  if (metrics_ == nullptr) return;
  if (request.choice_index == 0) {  // the choices share their prompt
    const auto n_tokens = static_cast<double>(request.prompt.size());
    metrics_->Add(Counter::kPromptTokens, n_tokens);
    metrics_->Observe(Histogram::kRequestPromptTokens, n_tokens);
  }
  if (request.asked_choices > 0) metrics_->Add(Counter::kDegradedRequests, 1, {"n"});
  if (request.asked_max_tokens > 0) metrics_->Add(Counter::kDegradedRequests, 1, {"max_tokens"});
}

void EngineMetrics::Token(EventChannel& channel, TimePoint now) {
  if (metrics_ == nullptr) return;
  metrics_->Add(Counter::kGeneratedTokens);
  const bool first = channel.last_token == TimePoint{};
  metrics_->Observe(first ? Histogram::kTimeToFirstToken : Histogram::kInterTokenLatency,
                    Seconds(first ? channel.submitted : channel.last_token, now));
  channel.last_token = now;
}

void EngineMetrics::Finished(const EventChannel& channel, const FinishedEvent& end, TimePoint now) {
  if (metrics_ == nullptr) return;
  const Usage& usage = end.usage;
  if (end.report.smaller_chunks) metrics_->Add(Counter::kDegradedRequests, 1, {"chunk"});
  metrics_->Observe(Histogram::kEndToEnd, Seconds(channel.submitted, now));
  metrics_->Observe(Histogram::kQueueTime, usage.queue_seconds);
  // Who left before a phase began has no time in it.
  if (usage.prefill_seconds > 0) {
    metrics_->Observe(Histogram::kPrefillTime, usage.prefill_seconds);
  }
  if (usage.decode_seconds > 0) metrics_->Observe(Histogram::kDecodeTime, usage.decode_seconds);
  metrics_->Observe(Histogram::kRequestGeneratedTokens, usage.generated_tokens);
}

void EngineMetrics::Step(const StepPlan& plan, const PreparationTimes& preparation,
                         double seconds) {
  if (metrics_ == nullptr) return;
  bool prefill = false, decode = false;
  for (const PlannedRun& run : plan.runs) {
    (run.sequence->state == SequenceState::kDecode ? decode : prefill) = true;
  }
  metrics_->Add(Counter::kSteps, 1, {prefill && decode ? "mixed" : decode ? "decode" : "prefill"});
  metrics_->Observe(Histogram::kStepTime, seconds);
  metrics_->Observe(Histogram::kBatchSize, static_cast<double>(plan.runs.size()));
  metrics_->Observe(Histogram::kStepTokens, plan.n_tokens);
  metrics_->Observe(Histogram::kPreparationTime, preparation.positions, {"positions"});
  metrics_->Observe(Histogram::kPreparationTime, preparation.page_tables, {"page_tables"});
  metrics_->Observe(Histogram::kPreparationTime, preparation.ragged_index, {"ragged_index"});
}

void EngineMetrics::StepFailed(const PreparationTimes& preparation) {
  if (metrics_ == nullptr || preparation.failed.empty()) return;
  metrics_->Add(Counter::kPreparationFailures, 1, {preparation.failed});
}

void EngineMetrics::Update(const EngineStats& stats, const SchedulerTotals& totals,
                           const AdmissionGate::State& gate) {
  if (metrics_ == nullptr) return;
  const auto set = [this](Gauge id, auto value) { metrics_->Set(id, static_cast<double>(value)); };
  const auto add = [this](Counter id, uint64_t now, uint64_t before, LabelValues labels = {}) {
    if (now != before) metrics_->Add(id, static_cast<double>(now - before), labels);
  };
  const KvUsage& kv = stats.kv;
  const uint64_t pages = kv.pages, used = kv.used_pages;
  set(Gauge::kRunning, stats.n_running);
  set(Gauge::kWaiting, stats.n_waiting - stats.n_swapped);
  set(Gauge::kSwapped, stats.n_swapped);
  set(Gauge::kQueueLength, gate.pending);
  set(Gauge::kPredictedQueueSeconds, stats.predicted_wait_seconds);
  set(Gauge::kKvUsage, pages == 0 ? 0.0 : static_cast<double>(used) / static_cast<double>(pages));
  set(Gauge::kKvPages, pages);
  set(Gauge::kKvFreePages, pages - used);
  set(Gauge::kKvCachedPages, kv.cached_pages);
  set(Gauge::kKvPromisedPages, kv.promised_pages);
  set(Gauge::kKvFragmentation, kv.fragmentation());
  set(Gauge::kSwapUsedBytes, stats.swap_used_bytes);
  metrics_->Set(Gauge::kUsedBytes, static_cast<double>(kv.used_bytes), {"kv"});
  metrics_->Set(Gauge::kUsedBytes, static_cast<double>(stats.swap_used_bytes), {"swap"});
  set(Gauge::kDegradationLevel, gate.degradation);
  metrics_->SetState(Gauge::kBreakerState, Name(gate.breaker));

  add(Counter::kPrefixQueryTokens, totals.prefix_query_tokens, last_totals_.prefix_query_tokens);
  add(Counter::kPrefixHitTokens, totals.prefix_hit_tokens, last_totals_.prefix_hit_tokens);
  add(Counter::kEvictedPages, kv.evicted_pages, last_.kv.evicted_pages);
  add(Counter::kPreemptions, totals.preemptions_swap, last_totals_.preemptions_swap, {"swap"});
  add(Counter::kPreemptions, totals.preemptions_recompute, last_totals_.preemptions_recompute,
      {"recompute"});
  add(Counter::kSwappedPages, totals.swapped_in_pages, last_totals_.swapped_in_pages, {"in"});
  add(Counter::kSwappedPages, totals.swapped_out_pages, last_totals_.swapped_out_pages, {"out"});
  add(Counter::kDraftTokens, totals.drafted_tokens, last_totals_.drafted_tokens);
  add(Counter::kAcceptedDraftTokens, totals.accepted_tokens, last_totals_.accepted_tokens);
  add(Counter::kSwapFailures, totals.swap_failures, last_totals_.swap_failures);
  add(Counter::kBreakerTransitions, gate.transitions, last_transitions_, {Name(gate.breaker)});
  last_ = stats;
  last_totals_ = totals;
  last_transitions_ = gate.transitions;
}

}  // namespace hadal
