// Turns a step plan into flat arrays, runs the model on them and chooses the next tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "kv/swap_space.h"
#include "model/model.h"
#include "sampling/sampler.h"
#include "sched/step_plan.h"

namespace hadal {

// How long the last step took to prepare, by stage, in seconds.
struct PreparationTimes {
  double positions = 0;     // tokens, positions and what RoPE needs of them
  double page_tables = 0;   // slots and pages
  double ragged_index = 0;  // rows of each sequence and of the logits
  std::string_view failed;  // the stage ("positions", ...) that found no memory; empty: none
};

// What runs a planned step. The engine sees no more than this of the model.
class StepExecutor {
 public:
  virtual ~StepExecutor() = default;
  // One result per run of the plan; results.size() == plan.runs.size(), each cleared before.
  // A failure of one sequence goes into its result; Error is thrown only when the whole step
  // failed (the device).
  virtual void Run(const StepPlan& plan, std::span<RunResult> results) = 0;
  // Whether the KV of a token depends on the length of its prompt (length-dependent RoPE).
  virtual bool kv_depends_on_length() const = 0;
  // Bytes that plans may use with kSwapOut and kSwapIn.
  virtual uint64_t swap_bytes() const { return 0; }
  virtual PreparationTimes preparation() const { return {}; }
};

// Owns the arrays of a step; nothing is allocated in Run unless logprobs are asked for.
class Runner : public StepExecutor {
 public:
  // `model` (with Reserve(limits) called), `kv` and `swap` (may be null) must outlive the runner.
  Runner(Model& model, KvCache& kv, const StepLimits& limits, SwapSpace* swap = nullptr);

  void Run(const StepPlan& plan, std::span<RunResult> results) override;
  bool kv_depends_on_length() const override { return length_dependent_rope_; }
  uint64_t swap_bytes() const override { return swap_ == nullptr ? 0 : swap_->bytes().size(); }
  PreparationTimes preparation() const override { return preparation_; }

  // Watches the steps: `taps` as in Model::Forward; `logits` is called for every run that wants
  // logits, with its last n_logits rows. Both are called by the thread that calls Run.
  using LogitsObserver = std::function<void(const PlannedRun& run, Tensor logits)>;
  void Observe(const Taps* taps, LogitsObserver logits);

 private:
  struct GroupArrays {
    std::vector<uint32_t> slots, pages, page_offsets;
  };
  void Build(const StepPlan& plan);
  template <typename Body>
  void Prepare(std::string_view stage, double& seconds, Body build);
  void BuildPositions(const StepPlan& plan);
  void BuildPageTables(const StepPlan& plan);
  void BuildRaggedIndex(const StepPlan& plan);
  void Carry(const PageOp& op);
  // A run's rows of logits, and where what is chosen from them goes.
  struct Samples {
    const PlannedRun* run;
    Tensor rows;
    std::span<const int32_t> largest;  // what Backend::Argmax says of each row
    RunResult* result;
  };
  // What choosing tokens takes.
  struct Chooser {
    explicit Chooser(uint32_t vocab) : sampler(vocab) {}
    Sampler sampler;
    std::vector<int32_t> generated;  // with the part of a draft that came true
  };
  // samples_, by so many choosers at the same time.
  void TakeAll(int64_t n_choosers);
  void TakeLogits(const Samples& samples, Chooser& chooser);
  void Sample(const PlannedRun& run, std::span<const float> logits, int32_t largest,
              Chooser& chooser, RunResult& result);
  void ExplainNonFinite(const StepPlan& plan, std::span<RunResult> results);

  Model& model_;
  KvCache& kv_;
  SwapSpace* const swap_;
  std::vector<Chooser> choosers_;  // one at least
  const bool length_dependent_rope_;
  const Taps* taps_ = nullptr;
  LogitsObserver logits_observer_;

  PreparationTimes preparation_;
  StepInput step_;  // views of the arrays below
  std::vector<int32_t> tokens_;
  std::vector<int32_t> largest_;  // of each row of logits
  std::vector<uint32_t> positions_, rope_lengths_, logit_rows_;
  std::vector<StepSequence> sequences_;
  std::vector<Samples> samples_;
  std::vector<GroupArrays> groups_;
  std::vector<StepInput::KvPages> group_views_;
};

}  // namespace hadal
