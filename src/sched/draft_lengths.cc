#include "sched/draft_lengths.h"

#include <algorithm>

namespace hadal {
namespace {

// Gains that are smaller than this are within the model's error.
constexpr double kMargin = 1.1;

struct Outcome {
  double tokens = 0;
  double seconds = 0;
};

// The first token of every draft, then the second of every one, and so on: while each adds at least
// `least` tokens per second, and there is room.
Outcome Fill(const CostModel& cost, const StepShape& base, const DraftBudget& budget, double least,
             std::span<DraftChoice> choices) {
  StepShape step = base;
  Outcome outcome{static_cast<double>(choices.size()), cost.Predict(base)};
  uint32_t rows = budget.rows;
  for (DraftChoice& choice : choices) choice.length = 0;
  for (uint32_t depth = 0, taken = 1; taken > 0; ++depth) {
    taken = 0;
    for (DraftChoice& choice : choices) {
      if (choice.length < depth || depth >= choice.most || rows == 0) continue;
      double chance = 1;
      for (uint32_t i = 0; i <= depth; ++i) chance *= choice.record->Chance(choice.match + i);
      StepShape with = step;
      with += DraftRowShape(choice.position + depth);
      const double seconds = cost.Predict(with);
      if (!budget.always && chance < least * (seconds - outcome.seconds)) continue;
      if (budget.seconds > 0 && seconds > budget.seconds) continue;
      step = with;
      outcome = {outcome.tokens + chance, seconds};
      ++choice.length;
      ++taken;
      --rows;
    }
  }
  return outcome;
}

}  // namespace

StepShape DraftRowShape(uint64_t position) {
  return {.tokens = 1, .context = position + 1, .sequences = 1};
}

void ChooseDraftLengths(const CostModel& cost, const StepShape& base, const DraftBudget& budget,
                        std::span<DraftChoice> choices) {
  // The rate that a row must beat is the one reached with all of them: it grows with what is left
  // out, and so settles.
  constexpr int kRounds = 4;
  double rate = static_cast<double>(choices.size()) / cost.Predict(base);
  for (int round = 0; round < kRounds; ++round) {
    const Outcome outcome = Fill(cost, base, budget, kMargin * rate, choices);
    const double reached = outcome.tokens / outcome.seconds;
    if (budget.always || reached <= rate * 1.001) return;
    rate = reached;
  }
}

}  // namespace hadal
