#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "sampling/logprobs.h"

namespace hadal {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
// In counts_: the token occurs in the text; the bits below count how often it was generated.
constexpr uint32_t kSeen = 0x80000000;
// base^n overflows for long runs; this is far below any logit already.
constexpr double kMaxDryPenalty = 1e9;

// Of the plain logits or of the changed ones; the lowest id wins a tie.
template <typename T>
int32_t Argmax(const std::vector<T>& x) {
  return static_cast<int32_t>(std::max_element(x.begin(), x.end()) - x.begin());
}

bool ChangesLogits(const SamplingParams& params, const SampleContext& context) {
  return !params.logit_bias.empty() || !context.banned.empty() ||
         params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
         params.frequency_penalty != 0.0f || params.dry.multiplier != 0.0f;
}

double WeightOf(double x, double max, const SamplingParams& params) {
  return std::exp((x - max) / params.temperature);
}

// Step 11: the first whose cumulated weight exceeds `target`.
template <typename T, typename WeightOfItem, typename IdOf>
int32_t Pick(const std::vector<T>& items, double target, WeightOfItem weight, IdOf id) {
  double sum = 0;
  size_t last_possible = items.size();
  for (size_t i = 0; i < items.size(); ++i) {
    sum += weight(items[i]);
    if (sum > target) return id(i);
    if (weight(items[i]) > 0) last_possible = i;
  }
  // Only when rounding makes target equal to the whole sum.
  HADAL_CHECK(last_possible < items.size());
  return id(last_possible);
}

}  // namespace

bool Sampler::Heavier(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

Sampler::Sampler(uint32_t vocab) : vocab_(vocab), x_(vocab), counts_(vocab) {
  HADAL_CHECK(vocab > 0);
  candidates_.reserve(vocab);
  best_.reserve(vocab);
}

int32_t Sampler::Sample(std::span<const float> logits, const SamplingParams& params,
                        const SampleContext& context) {
  HADAL_CHECK(logits.size() == vocab_);
  if (context.largest < 0) CheckLogits(logits);
  if (params.temperature == 0.0f && !ChangesLogits(params, context)) {
    if (context.largest >= 0) return context.largest;
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  std::copy(logits.begin(), logits.end(), x_.begin());
  for (const auto& [token, bias] : params.logit_bias) x_[static_cast<size_t>(token)] += bias;
  for (const int32_t token : context.banned) x_[static_cast<size_t>(token)] = kMinusInfinity;
  ApplyPenalties(params, context);
  if (params.dry.multiplier != 0.0f) ApplyDry(params.dry, context);

  const int32_t best = Argmax(x_);
  const double max = x_[static_cast<size_t>(best)];
  if (!(max > kMinusInfinity)) {
    Fail(ErrorKind::kInvalid,
         "no token is possible: min_tokens and logit_bias together ban every one");
  }
  return params.temperature == 0.0f ? best : Draw(params, context, max);
}

void Sampler::ApplyPenalties(const SamplingParams& params, const SampleContext& context) {
  const double repetition = params.repetition_penalty;
  const double presence = params.presence_penalty;
  const double frequency = params.frequency_penalty;
  if (repetition == 1 && presence == 0 && frequency == 0) return;
  for (const int32_t token : context.prompt) counts_[static_cast<size_t>(token)] |= kSeen;
  for (const int32_t token : context.generated) {
    uint32_t& count = counts_[static_cast<size_t>(token)];
    count = (count + 1) | kSeen;
  }
  const auto apply = [&](int32_t token) {
    uint32_t& seen = counts_[static_cast<size_t>(token)];
    if (seen == 0) return;  // done already
    double& x = x_[static_cast<size_t>(token)];
    x = x > 0 ? x / repetition : x * repetition;
    const uint32_t count = seen & ~kSeen;
    if (count > 0) x -= count * frequency + presence;
    seen = 0;
  };
  for (const int32_t token : context.prompt) apply(token);
  for (const int32_t token : context.generated) apply(token);
}

void Sampler::ApplyDry(const DryParams& dry, const SampleContext& context) {
  const auto is_breaker = [&dry](int32_t token) {
    return std::binary_search(dry.breakers.begin(), dry.breakers.end(), token);
  };
  // The text backwards, so that "ends like the text" becomes "begins like history_".
  const size_t text = context.prompt.size() + context.generated.size();
  const size_t n = dry.range == 0 ? text : std::min<size_t>(text, dry.range);
  history_.clear();
  for (size_t i = 0; i < n; ++i) {
    history_.push_back(i < context.generated.size()
                           ? context.generated[context.generated.size() - 1 - i]
                           : context.prompt[text - 1 - i]);
  }
  const auto first_breaker = std::find_if(history_.begin(), history_.end(), is_breaker);
  const auto longest = static_cast<uint32_t>(first_breaker - history_.begin());
  if (longest < dry.allowed_length) return;

  // Z function: runs_[i] = how far history_[i..] agrees with history_.
  runs_.assign(n, 0);
  for (size_t i = 1, left = 0, right = 0; i < n; ++i) {
    size_t run = i < right ? std::min<size_t>(right - i, runs_[i - left]) : 0;
    while (i + run < n && history_[run] == history_[i + run]) ++run;
    if (i + run > right) {
      left = i;
      right = i + run;
    }
    runs_[i] = static_cast<uint32_t>(run);
  }
  // counts_ holds each token's longest run; history_[i - 1] is what followed the earlier run.
  for (size_t i = 1; i < n; ++i) {
    uint32_t& run = counts_[static_cast<size_t>(history_[i - 1])];
    run = std::max(run, std::min(runs_[i], longest));
  }
  for (const int32_t token : history_) {
    const uint32_t run = std::exchange(counts_[static_cast<size_t>(token)], 0);
    if (run < dry.allowed_length || is_breaker(token)) continue;
    const double penalty = static_cast<double>(dry.multiplier) *
                           std::pow(static_cast<double>(dry.base), run - dry.allowed_length);
    x_[static_cast<size_t>(token)] -= std::min(penalty, kMaxDryPenalty);
  }
}

// Steps 6 and 7: fills candidates_ with the weights of the top-k tokens.
void Sampler::CollectTopK(const SamplingParams& params, double max) {
  const auto k = static_cast<size_t>(params.top_k);
  const auto better = [this](int32_t a, int32_t b) {
    const double x = x_[static_cast<size_t>(a)], y = x_[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  // A heap of the k best so far, worst on top. Ids come in order, so a tie never replaces.
  best_.clear();
  for (uint32_t i = 0; i < vocab_; ++i) {
    const auto id = static_cast<int32_t>(i);
    if (best_.size() < k) {
      best_.push_back(id);
      if (best_.size() == k) std::make_heap(best_.begin(), best_.end(), better);
    } else if (x_[i] > x_[static_cast<size_t>(best_.front())]) {
      std::pop_heap(best_.begin(), best_.end(), better);
      best_.back() = id;
      std::push_heap(best_.begin(), best_.end(), better);
    }
  }
  std::sort(best_.begin(), best_.end());
  candidates_.clear();
  for (const int32_t id : best_) {
    candidates_.push_back({WeightOf(x_[static_cast<size_t>(id)], max, params), 0, id});
  }
}

// Of the weights in x_: those of at least `limit`, and their sum.
double Sampler::CollectFrom(double limit) {
  candidates_.clear();
  double sum = 0;
  for (uint32_t id = 0; id < vocab_; ++id) {
    if (x_[id] < limit) continue;
    candidates_.push_back({x_[id], 0, static_cast<int32_t>(id)});
    sum += x_[id];
  }
  return sum;
}

// Those that can be among the heaviest which reach `wanted`: usually a few tokens hold the mass, so
// that few need to be brought together and sorted.
void Sampler::CollectHeaviest(double wanted) {
  for (const double limit : {1e-2, 1e-4, 1e-8, 0.0}) {  // the largest weight is 1
    // Summed in another order than in KeepBeginning: a little more must be there.
    if (CollectFrom(limit) > wanted * (1 + 1e-9)) return;
  }
}

// Keeps the shortest beginning, in the order `before`, whose weights reach `wanted`.
template <typename Before>
void Sampler::KeepBeginning(double wanted, Before before) {
  size_t kept = 0;
  double sum = 0;
  for (size_t goal = 64; sum < wanted && kept < candidates_.size(); goal *= 8) {
    goal = std::min(goal, candidates_.size());
    const auto begin = candidates_.begin() + static_cast<std::ptrdiff_t>(kept);
    const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(goal);
    std::nth_element(begin, end - 1, candidates_.end(), before);
    std::sort(begin, end, before);
    while (kept < goal && sum < wanted) sum += candidates_[kept++].weight;
  }
  candidates_.resize(std::max<size_t>(kept, 1));
  std::sort(candidates_.begin(), candidates_.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
}

double Sampler::CandidateMass() const {
  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  return total;
}

// `total`: the mass of the candidates.
void Sampler::KeepTypical(double typical_p, double total) {
  const double log_total = std::log(total);
  double entropy = 0;
  for (Candidate& candidate : candidates_) {
    candidate.key = log_total - std::log(candidate.weight);  // -ln p; infinite for weight 0
    if (candidate.weight > 0) entropy += candidate.weight / total * candidate.key;
  }
  for (Candidate& candidate : candidates_) candidate.key = std::abs(candidate.key - entropy);
  KeepBeginning(typical_p * total, [](const Candidate& a, const Candidate& b) {
    return a.key != b.key ? a.key < b.key : a.id < b.id;
  });
}

void Sampler::KeepMinP(double fraction) {
  double largest = 0;
  for (const Candidate& candidate : candidates_) largest = std::max(largest, candidate.weight);
  std::erase_if(candidates_, [limit = fraction * largest](const Candidate& candidate) {
    return candidate.weight < limit;
  });
}

int32_t Sampler::Draw(const SamplingParams& params, const SampleContext& context, double max) {
  const double u = Uniform(context.random);
  double mass = 0;  // of what remains
  if (params.top_k > 0 && static_cast<uint32_t>(params.top_k) < vocab_) {
    CollectTopK(params, max);
    mass = CandidateMass();
  } else {
    for (double& x : x_) {
      x = WeightOf(x, max, params);
      mass += x;
    }
    if (params.typical_p < 1.0f) {
      CollectFrom(0);
    } else if (params.top_p < 1.0f) {
      CollectHeaviest(params.top_p * mass);
    } else if (params.min_p > 0.0f) {
      CollectFrom(params.min_p);
    } else {
      const auto weight = [](double x) { return x; };
      return Pick(x_, u * mass, weight, [](size_t i) { return static_cast<int32_t>(i); });
    }
  }
  if (params.typical_p < 1.0f) {
    KeepTypical(params.typical_p, mass);
    mass = CandidateMass();
  }
  if (params.top_p < 1.0f) KeepBeginning(params.top_p * mass, Heavier);
  if (params.min_p > 0.0f) KeepMinP(params.min_p);
  const auto weight = [](const Candidate& candidate) { return candidate.weight; };
  return Pick(candidates_, u * CandidateMass(), weight,
              [this](size_t i) { return candidates_[i].id; });
}

}  // namespace hadal
