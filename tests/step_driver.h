// Drives Model::Forward by hand, with page tables of its own: what a scheduler and a runner do, in
// their plainest form. For tests.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "golden_files.h"
#include "model/model.h"

namespace hadal::testing {

struct DriverOptions {
  DType kv_dtype = DType::kF32;
  uint32_t block_size = 16;
  StepLimits limits;
};

// Tokens that one sequence adds in one step.
struct Piece {
  uint32_t sequence = 0;
  std::span<const int32_t> tokens;
  uint32_t rope_length = 0;  // of the request's whole prompt, or t + 1 for a generated token t
};

class StepDriver {
 public:
  // `model` must outlive the driver. Reserves it for the limits.
  StepDriver(Model& model, const DriverOptions& options);

  // Forgets everything about a sequence; its pages are zeroed and used again.
  void Forget(uint32_t sequence);

  // Runs one step; returns the logits of all its rows, piece after piece.
  Rows Step(std::span<const Piece> pieces, const Taps* taps = nullptr);

  // Feeds a prompt to an empty sequence, `chunk` tokens at a time (0: whole); the logits of all.
  Rows Feed(uint32_t sequence, std::span<const int32_t> prompt, uint32_t chunk,
            const Taps* taps = nullptr);

  // Appends n greedy tokens; `logits` is the row after the prompt's last token.
  std::vector<int32_t> Greedy(uint32_t sequence, const float* logits, uint32_t n);

  // As Step, but leaves the arrays of the step in `step` for other uses until the next call.
  StepInput Prepare(std::span<const Piece> pieces);
  Model& model() { return model_; }
  KvCache& kv() { return kv_; }

 private:
  struct Sequence {
    uint32_t length = 0;
    std::vector<std::vector<uint32_t>> pages;  // [group][entry]
  };
  struct GroupArrays {
    std::vector<uint32_t> slots, pages, page_offsets;
  };

  Sequence& At(uint32_t sequence);
  uint32_t TakePage(uint32_t group);
  void AddPages(const Piece& piece);
  void AddTokens(const Piece& piece);
  void AddGroup(const Piece& piece, uint32_t group);

  Model& model_;
  KvCache kv_;
  std::vector<std::vector<uint32_t>> free_pages_;  // [group]
  std::vector<Sequence> sequences_;

  // The step being built.
  std::vector<int32_t> tokens_;
  std::vector<uint32_t> positions_, rope_lengths_, logit_rows_;
  std::vector<StepSequence> step_sequences_;
  std::vector<GroupArrays> groups_;
  std::vector<StepInput::KvPages> group_views_;
};

// The index of the largest value, the lower one of equals.
int32_t ArgMax(const float* logits, uint32_t n);

}  // namespace hadal::testing
