// Speculation: drafts go into a step behind everything else, and only where nobody pays for them.
#include <algorithm>

#include "base/check.h"
#include "sched/scheduler.h"

namespace hadal {
namespace {

// When drafts that look good seem too dear so many times in a row, one is tried all the same: only
// steps with drafts can tell the cost model better.
constexpr uint32_t kProbeInterval = 256;
constexpr uint32_t kProbeLength = 2;
constexpr double kLikely = 0.6;

}  // namespace

// A draft may hold what the text can still have: max_tokens less the token that comes in any case.
// Nothing follows a token that ends the text.
void Scheduler::GuessNext(Sequence& sequence) const {
  const SequenceRequest& request = sequence.request;
  const auto generated = static_cast<uint32_t>(sequence.generated.size());
  const uint32_t most = std::min(limits_.max_draft, request.max_tokens - generated - 1);
  FindDraft(request.prompt, sequence.generated, most, sequence.draft);
  std::vector<int32_t>& tokens = sequence.draft.tokens;
  tokens.erase(std::find_first_of(tokens.begin(), tokens.end(), request.stop_ids.begin(),
                                  request.stop_ids.end()),
               tokens.end());
}

void Scheduler::PlanDrafts() {
  if (limits_.speculation == Speculation::kOff) return;
  draft_choices_.clear();
  bool prompts = false;
  for (const PlannedRun& run : plan_.runs) {
    Sequence& sequence = *run.sequence;
    if (sequence.state != SequenceState::kDecode) {
      prompts = true;
      continue;
    }
    GuessNext(sequence);
    draft_choices_.push_back({&sequence.draft_record, sequence.draft.match,
                              static_cast<uint32_t>(sequence.draft.tokens.size()), sequence.size(),
                              0});
  }
  // In overload the time belongs to those who wait.
  if (draft_choices_.empty() || (degraded_ && prompts)) return;
  const DraftBudget budget{.rows = std::min(limits_.max_tokens - plan_.n_tokens,
                                            limits_.max_logit_rows - plan_.n_logits),
                           .seconds = limits_.itl_target,
                           .always = limits_.speculation == Speculation::kAlways};
  if (budget.rows == 0) return;
  ChooseDraftLengths(cost_, ShapeOfPlan(), budget, draft_choices_);
  if (!prompts && limits_.itl_target == 0 && budget.rows >= kProbeLength) {
    ProbeWhenDue(draft_choices_);
  }
  size_t i = 0;
  for (PlannedRun& run : plan_.runs) {
    if (run.sequence->state != SequenceState::kDecode) continue;
    ExtendRun(run, draft_choices_[i++].length);
  }
}

void Scheduler::ProbeWhenDue(std::span<DraftChoice> choices) {
  DraftChoice* likely = nullptr;
  for (DraftChoice& choice : choices) {
    if (choice.length > 0) {
      declined_drafts_ = 0;
      return;
    }
    if (choice.most > 0 && choice.record->Chance(choice.match) >= kLikely) likely = &choice;
  }
  if (likely == nullptr || ++declined_drafts_ < kProbeInterval) return;
  declined_drafts_ = 0;
  likely->length = std::min(likely->most, kProbeLength);
}

// As far as there are pages that nobody has a claim to: a draft makes nobody wait and nobody give
// way.
void Scheduler::ExtendRun(PlannedRun& run, uint32_t n_draft) {
  Sequence& sequence = *run.sequence;
  const uint32_t stored = sequence.pages.n_tokens() + run.n_tokens;
  while (n_draft > 0 && !kv_.Grow(sequence.pages, stored + n_draft)) --n_draft;
  run.draft = std::span<const int32_t>(sequence.draft.tokens).first(n_draft);
  run.n_tokens += n_draft;
  run.n_logits += n_draft;
  plan_.n_tokens += n_draft;
  plan_.n_logits += n_draft;
}

// What came true becomes text; the slots of the rest are free again, to be written anew.
void Scheduler::TakeDraft(const PlannedRun& run, const RunResult& result) {
  Sequence& sequence = *run.sequence;
  const std::span<const int32_t> came(result.tokens);
  const std::vector<int32_t>& guessed = sequence.draft.tokens;
  const auto n_draft = static_cast<uint32_t>(run.draft.size());
  HADAL_CHECK(!came.empty() && came.size() <= n_draft + 1);
  const auto accepted = static_cast<uint32_t>(came.size()) - 1;
  HADAL_CHECK(std::equal(came.begin(), came.end() - 1, run.draft.begin()));
  sequence.generated.insert(sequence.generated.end(), came.begin(), came.end() - 1);
  sequence.n_computed += accepted;
  waiting_.Charge(sequence.request.tenant, 2.0 * accepted);
  if (accepted < n_draft) kv_.Truncate(sequence.pages, sequence.n_computed);
  for (uint32_t i = 0; i < std::min(came.size(), guessed.size()); ++i) {
    sequence.draft_record.Note(sequence.draft.match + i, came[i] == guessed[i]);
  }
  sequence.report.drafted_tokens += n_draft;
  sequence.report.accepted_tokens += accepted;
  totals_.drafted_tokens += n_draft;
  totals_.accepted_tokens += accepted;
}

}  // namespace hadal
