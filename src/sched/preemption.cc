// Who gives up its pages when they run short, and how.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sched/scheduler.h"

namespace hadal {

// Every decode gets the slot for its next token, the oldest first.
void Scheduler::MakeRoomForDecodes(TimePoint now) {
  std::vector<Sequence*> decodes;
  for (const SequencePtr& sequence : running_) {
    if (sequence->state == SequenceState::kDecode) decodes.push_back(sequence.get());
  }
  for (Sequence* sequence : decodes) {
    while (sequence->state == SequenceState::kDecode &&
           !kv_.Grow(sequence->pages, sequence->pages.n_tokens() + 1)) {
      Preempt(Victim(), /*may_swap=*/true, now);
    }
  }
}

// The newest of the lowest priority; never the one that was admitted first. That one alone always
// has the pages it needs.
Sequence& Scheduler::Victim() {
  HADAL_CHECK(running_.size() > 1);
  const auto later = [](const SequencePtr& a, const SequencePtr& b) {
    return a->request.priority != b->request.priority ? a->request.priority < b->request.priority
                                                      : a->admission < b->admission;
  };
  return **std::max_element(running_.begin() + 1, running_.end(), later);
}

// To move the pages out and in again, against computing them again: all at once, in full chunks.
bool Scheduler::SwapIsCheaper(const Sequence& sequence) const {
  const uint64_t chunk = limits_.max_tokens;
  const StepShape nothing{.sequences = 1};
  double recompute = 0;
  for (uint64_t first = 0; first < sequence.n_computed; first += chunk) {
    const uint64_t n = std::min<uint64_t>(chunk, sequence.n_computed - first);
    recompute += cost_.Predict(RunShape(first, n)) - cost_.Predict(nothing);
  }
  const StepShape moved{.sequences = 1, .swapped_bytes = 2 * kv_.SwapBytes(sequence.pages)};
  return cost_.Predict(moved) - cost_.Predict(nothing) < recompute;
}

bool Scheduler::TrySwapOut(Sequence& sequence) {
  if (limits_.preemption == PreemptionMode::kRecompute || swap_.bytes() == 0) return false;
  if (sequence.n_computed == 0) return false;
  if (limits_.preemption == PreemptionMode::kAuto && !SwapIsCheaper(sequence)) return false;
  const uint64_t bytes = kv_.SwapBytes(sequence.pages);
  const std::optional<uint64_t> offset = swap_.Allocate(bytes);
  if (!offset) {
    ++totals_.swap_failures;
    return false;
  }
  sequence.swapped = kv_.SwapOut(sequence.pages, *offset);
  for (const SwappedTable::Group& group : sequence.swapped->groups) {
    totals_.swapped_out_pages += group.n_blocks - group.first_live;
  }
  totals_.swapped_out_bytes += bytes;
  plan_.swapped_bytes += bytes;
  sequence.report.swapped_bytes += bytes;
  ++n_swapped_;
  return true;
}

void Scheduler::Preempt(Sequence& sequence, bool may_swap, TimePoint now) {
  if (may_swap && TrySwapOut(sequence)) {
    ++sequence.report.preemptions_swap;
    ++totals_.preemptions_swap;
  } else {
    kv_.Close(sequence.pages);
    sequence.n_computed = 0;
    ++sequence.report.preemptions_recompute;
    ++totals_.preemptions_recompute;
  }
  sequence.state = SequenceState::kWaiting;
  sequence.preempted = now;
  waiting_.NoteRunning(sequence.request.tenant, -1);
  const auto place = std::find_if(running_.begin(), running_.end(),
                                  [&](const SequencePtr& s) { return s.get() == &sequence; });
  HADAL_CHECK(place != running_.end());
  waiting_.Return(std::move(*place));
  running_.erase(place);
}

void Scheduler::DropSwapped(Sequence& sequence) {
  if (!sequence.swapped) return;
  swap_.Free(sequence.swapped->offset, sequence.swapped->bytes);
  sequence.swapped.reset();
  --n_swapped_;
}

}  // namespace hadal
