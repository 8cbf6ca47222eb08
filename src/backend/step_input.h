// One step's work as flat arrays: ragged and explicit. No masks, no padding: what a token may see
// follows from its sequence, its position and the layer's window.
#pragma once

#include <cstdint>
#include <span>

#include "spec/kv_layout.h"

namespace hadal {

// A run of consecutive tokens of one sequence: a prompt chunk or one decoded token.
struct StepSequence {
  uint32_t first_row = 0;  // in tokens[]
  uint32_t n_rows = 0;
  uint32_t context = 0;  // tokens in the KV cache once this step has stored its own
};

// Views only; the owner (the runner) keeps the arrays alive during the step.
struct StepInput {
  std::span<const int32_t> tokens;          // [n_tokens]
  std::span<const uint32_t> positions;      // [n_tokens], consecutive within a sequence
  std::span<const StepSequence> sequences;  // rows ascending, every row in exactly one
  // For length-dependent RoPE (RopeTable::length_dependent): the length each token's frequencies
  // come from, [n_tokens]; otherwise empty.
  std::span<const uint32_t> rope_lengths;

  // One per KvLayout group.
  struct KvPages {
    std::span<const uint32_t> slots;  // [n_tokens]: page * block_size + offset, where to store
    std::span<const uint32_t> pages;  // all page tables, one after the other
    std::span<const uint32_t>
        page_offsets;  // [n_sequences + 1]: sequence s has pages[page_offsets[s]..)
                       // entry i holds tokens [i*block_size, (i+1)*block_size);
                       // kNoPage where the window has passed it
  };
  std::span<const KvPages> groups;

  std::span<const uint32_t> logit_rows;  // rows whose logits are wanted, ascending

  uint32_t n_tokens() const { return static_cast<uint32_t>(tokens.size()); }
};

// The most that one step may hold; buffers are sized by it once, at start.
struct StepLimits {
  uint32_t max_tokens = 512;
  uint32_t max_sequences = 64;
  uint32_t max_logit_rows = 64;
  uint64_t max_context = 4096;
};

}  // namespace hadal
