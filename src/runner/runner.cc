#include "runner/runner.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <utility>

#include "base/check.h"
#include "memory/memory_plan.h"
#include "model/watchdog.h"

namespace hadal {
namespace {

// min_tokens: the tokens that must not be chosen yet.
std::span<const int32_t> BannedNow(const SequenceRequest& request, size_t generated) {
  if (generated >= request.sampling.min_tokens) return {};
  return request.stop_ids;
}

// Prompt tokens take the whole prompt's length, known from the start, so that no chunking and no
// cache state can change a value; a generated token takes its own.
uint32_t RopeLength(const Sequence& sequence, uint32_t position) {
  return std::max(sequence.prompt_size(), position + 1);
}

// Whether more than the largest logit is asked for.
bool IsCostly(const PlannedRun& run) {
  const SamplingParams& sampling = run.sequence->request.sampling;
  return sampling.temperature != 0.0f || sampling.logprobs >= 0 ||
         run.sequence->request.prompt_logprobs;
}

}  // namespace

Runner::Runner(Model& model, KvCache& kv, const StepLimits& limits, SwapSpace* swap)
    : model_(model), kv_(kv), swap_(swap), length_dependent_rope_(model.rope().length_dependent()) {
  tokens_.reserve(limits.max_tokens);
  positions_.reserve(limits.max_tokens);
  rope_lengths_.reserve(limits.max_tokens);
  logit_rows_.reserve(limits.max_logit_rows);
  largest_.reserve(limits.max_logit_rows);
  for (uint32_t i = ConcurrentSamplers(model.backend(), limits); i > 0; --i) {
    choosers_.emplace_back(model.spec().vocab).generated.reserve(limits.max_context);
  }
  samples_.reserve(limits.max_sequences);
  sequences_.reserve(limits.max_sequences);
  groups_.resize(kv.layout.groups.size());
  const size_t blocks = limits.max_context / kv.layout.block_size + 1;
  for (GroupArrays& group : groups_) {
    group.slots.reserve(limits.max_tokens);
    group.pages.reserve(blocks * limits.max_sequences);
    group.page_offsets.reserve(size_t{limits.max_sequences} + 1);
  }
  group_views_.resize(groups_.size());
}

void Runner::Observe(const Taps* taps, LogitsObserver logits) {
  taps_ = taps;
  logits_observer_ = std::move(logits);
}

void Runner::BuildPositions(const StepPlan& plan) {
  tokens_.clear();
  positions_.clear();
  rope_lengths_.clear();
  for (const PlannedRun& run : plan.runs) {
    for (uint32_t i = 0; i < run.n_tokens; ++i) {
      const uint32_t position = run.first_position + i;
      tokens_.push_back(run.token(i));
      positions_.push_back(position);
      if (length_dependent_rope_) rope_lengths_.push_back(RopeLength(*run.sequence, position));
    }
  }
}

void Runner::BuildPageTables(const StepPlan& plan) {
  const uint32_t block = kv_.layout.block_size;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    GroupArrays& group = groups_[g];
    group.slots.clear();
    group.pages.clear();
    group.page_offsets.assign(1, 0);
    for (const PlannedRun& run : plan.runs) {
      const std::span<const uint32_t> pages = run.sequence->pages.pages(g);
      for (uint32_t i = 0; i < run.n_tokens; ++i) {
        const uint32_t position = run.first_position + i;
        group.slots.push_back(pages[position / block] * block + position % block);
      }
      group.pages.insert(group.pages.end(), pages.begin(), pages.end());
      group.page_offsets.push_back(static_cast<uint32_t>(group.pages.size()));
    }
    group_views_[g] = {group.slots, group.pages, group.page_offsets};
  }
}

void Runner::BuildRaggedIndex(const StepPlan& plan) {
  sequences_.clear();
  logit_rows_.clear();
  uint32_t row = 0;
  for (const PlannedRun& run : plan.runs) {
    sequences_.push_back({row, run.n_tokens, run.first_position + run.n_tokens});
    row += run.n_tokens;
    for (uint32_t i = run.n_logits; i > 0; --i) logit_rows_.push_back(row - i);
  }
}

template <typename Body>
void Runner::Prepare(std::string_view stage, double& seconds, Body build) {
  const TimePoint start = std::chrono::steady_clock::now();
  try {
    build();
  } catch (const std::bad_alloc&) {
    preparation_.failed = stage;
    Fail(ErrorKind::kResource, "there is no memory to prepare a step's {}", stage);
  }
  seconds = Seconds(start, std::chrono::steady_clock::now());
}

void Runner::Build(const StepPlan& plan) {
  preparation_ = {};
  Prepare("positions", preparation_.positions, [&] { BuildPositions(plan); });
  Prepare("page_tables", preparation_.page_tables, [&] { BuildPageTables(plan); });
  Prepare("ragged_index", preparation_.ragged_index, [&] { BuildRaggedIndex(plan); });
  step_ = {.tokens = tokens_,
           .positions = positions_,
           .sequences = sequences_,
           .rope_lengths = rope_lengths_,
           .groups = group_views_,
           .logit_rows = logit_rows_};
}

void Runner::Carry(const PageOp& op) {
  const uint64_t bytes = kv_.layout.groups[op.group].page_bytes;
  Buffer& arena = kv_.arenas[op.group];
  const auto swapped = [&] {
    HADAL_CHECK(swap_ != nullptr && op.other + bytes <= swap_->bytes().size());
    return swap_->bytes().subspan(op.other, bytes);
  };
  switch (op.kind) {
    case PageOp::Kind::kZero:
      return model_.backend().Zero(arena, op.page * bytes, bytes);
    case PageOp::Kind::kCopy: {
      const auto from = static_cast<uint32_t>(op.other);
      return model_.backend().CopyPages(arena, bytes, {&from, 1}, {&op.page, 1});
    }
    case PageOp::Kind::kSwapOut:
      return model_.backend().CopyOut(arena, op.page * bytes, swapped());
    case PageOp::Kind::kSwapIn:
      return model_.backend().CopyIn(swapped(), arena, op.page * bytes);
  }
}

void Runner::Run(const StepPlan& plan, std::span<RunResult> results) {
  HADAL_CHECK(!plan.empty() && results.size() == plan.runs.size());
  for (const PageOp& op : plan.page_ops) Carry(op);
  Build(plan);
  const Tensor logits = model_.Forward(step_, kv_, taps_);
  largest_.resize(logit_rows_.size());
  if (!largest_.empty()) model_.backend().Argmax(logits, largest_);
  samples_.clear();
  uint32_t first = 0;
  int64_t costly = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const PlannedRun& run = plan.runs[i];
    if (run.n_logits == 0) continue;
    const Tensor rows(logits.row(first), run.n_logits, logits.cols, logits.stride);
    if (logits_observer_) logits_observer_(run, rows);
    samples_.push_back(
        {&run, rows, std::span<const int32_t>(largest_).subspan(first, run.n_logits), &results[i]});
    first += run.n_logits;
    costly += IsCostly(run) ? 1 : 0;
  }
  TakeAll(std::min(costly, static_cast<int64_t>(choosers_.size())));
  const bool failed = std::any_of(results.begin(), results.end(), [](const RunResult& result) {
    return result.error && result.error->kind() == ErrorKind::kNumeric;
  });
  if (failed) ExplainNonFinite(plan, results);
}

void Runner::TakeAll(int64_t n_choosers) {
  std::atomic<size_t> next = 0;
  model_.backend().RunOnHost(std::max<int64_t>(n_choosers, 1), [&](int64_t chooser) {
    for (size_t i = next++; i < samples_.size(); i = next++) {
      const Samples& samples = samples_[i];
      try {
        TakeLogits(samples, choosers_[static_cast<size_t>(chooser)]);
      } catch (const Error& error) {
        samples.result->error = error;
      } catch (const std::bad_alloc&) {
        samples.result->error =
            Error(ErrorKind::kResource, "there is no memory to choose the next token");
      }
    }
  });
}

void Runner::TakeLogits(const Samples& samples, Chooser& chooser) {
  const PlannedRun& run = *samples.run;
  const Tensor& rows = samples.rows;
  RunResult& result = *samples.result;
  const Sequence& sequence = *run.sequence;
  const SequenceRequest& request = sequence.request;
  const auto row = [&rows](uint32_t r) { return std::span<const float>(rows.row(r), rows.cols); };
  const uint32_t top =
      std::min(static_cast<uint32_t>(std::max(request.sampling.logprobs, 0)), rows.cols);
  if (request.prompt_logprobs) {
    // Row r belongs to position first_position + n_tokens - rows + r and predicts the one after.
    const uint32_t next = run.first_position + run.n_tokens - rows.rows + 1;
    for (uint32_t r = 0; r < rows.rows && next + r < sequence.prompt_size(); ++r) {
      result.prompt_logprobs.push_back(ComputeLogprobs(row(r), request.prompt[next + r], top));
    }
  }
  if (!run.samples) return;
  const auto n_draft = static_cast<uint32_t>(run.draft.size());
  const auto sample = [&](uint32_t r) { Sample(run, row(r), samples.largest[r], chooser, result); };
  sample(rows.rows - 1 - n_draft);
  for (uint32_t i = 0; i < n_draft && result.tokens[i] == run.draft[i]; ++i) {
    try {
      sample(rows.rows - n_draft + i);
    } catch (const Error&) {
      // The next step begins with this row and fails as it would have without a draft.
      return;
    }
  }
}

// Chooses the token after those of the sequence and those chosen before it in this step, each from
// its own distribution and with its own random number.
void Runner::Sample(const PlannedRun& run, std::span<const float> logits, int32_t largest,
                    Chooser& chooser, RunResult& result) {
  const Sequence& sequence = *run.sequence;
  const SequenceRequest& request = sequence.request;
  const auto accepted = static_cast<uint32_t>(result.tokens.size());
  std::span<const int32_t> generated = sequence.generated;
  if (accepted == 1) chooser.generated.assign(generated.begin(), generated.end());
  if (accepted > 0) {
    chooser.generated.push_back(result.tokens.back());
    generated = chooser.generated;
  }
  const SampleContext context{.prompt = request.prompt,
                              .generated = generated,
                              .banned = BannedNow(request, generated.size()),
                              .random = {.seed = *request.sampling.seed,
                                         .prompt_index = request.prompt_index,
                                         .choice_index = request.choice_index,
                                         .position = sequence.size() + accepted},
                              .largest = largest};
  const int32_t token = chooser.sampler.Sample(logits, request.sampling, context);
  if (request.sampling.logprobs >= 0) {
    const auto top = static_cast<size_t>(request.sampling.logprobs);
    result.logprobs.push_back(ComputeLogprobs(
        logits, token, static_cast<uint32_t>(std::min<size_t>(top, logits.size()))));
  }
  result.tokens.push_back(token);
}

void Runner::ExplainNonFinite(const StepPlan& plan, std::span<RunResult> results) {
  const NonFiniteReport report = FindNonFinite(model_, step_, kv_);
  for (size_t i = 0; i < results.size(); ++i) {
    std::optional<Error>& error = results[i].error;
    if (!error || error->kind() != ErrorKind::kNumeric) continue;
    const StepSequence& rows = sequences_[i];
    const bool here =
        report.found && report.row >= rows.first_row && report.row < rows.first_row + rows.n_rows;
    error =
        Error(ErrorKind::kNumeric,
              fmt::format("the model computed unusable values at position {}{}: {}",
                          plan.runs[i].first_position + plan.runs[i].n_tokens -
                              plan.runs[i].draft.size() - 1,
                          here ? ", first in " + report.where : std::string(), error->message()));
  }
}

}  // namespace hadal
