// What everything costs, before any of it is allocated, and how much KV the rest pays for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "memory/available_memory.h"
#include "spec/kv_layout.h"

namespace hadal {

// Bytes by category. Weights and activations come from the model's own exact functions.
struct MemoryPlan {
  uint64_t weights = 0;      // packed
  uint64_t activations = 0;  // the model's buffers, without the logits
  uint64_t logits = 0;       // [max_logit_rows, vocab] f32
  uint64_t workspace = 0;    // the backend's scratch space
  uint64_t kv = 0;

  uint64_t fixed() const { return weights + activations + logits + workspace; }
  uint64_t total() const { return fixed() + kv; }
};

// `model_weights`: PlanWeightBytes; `model_activations`: Model::ActivationBytes, logits included.
// The KV part is still zero.
MemoryPlan PlanFixedMemory(const ModelSpec& spec, const StepLimits& limits, const Backend& backend,
                           uint64_t model_weights, uint64_t model_activations);

struct KvWish {
  std::optional<uint64_t> context =
      std::nullopt;                 // asked for; absent: as much as fits, up to default_context
  uint64_t model_context = 0;       // the model's own limit; 0: it states none
  uint64_t default_context = 8192;  // enough for a conversation; more is asked for
  uint32_t max_sequences = 1;       // that may each fill the context at the same time
};

struct KvChoice {
  uint64_t context = 0;  // tokens of one sequence
  uint32_t pages = 0;    // in every group of the layout
  uint64_t bytes = 0;
};

// Exactly the bytes AllocateKvCache takes for `pages` pages.
uint64_t KvBytes(const KvLayout& layout, uint64_t pages);

// Picks context and pages so that fixed + KV stay within `available`, less a twentieth of it that
// the rest of the process needs. Throws Error(kResource), with all the numbers, when the fixed part
// alone, the context asked for, or less than one page does not fit; Error(kUsage) when the context
// asked for is 0 or beyond what the model supports.
KvChoice ChooseKv(const KvLayout& layout, const MemoryPlan& plan, const AvailableMemory& available,
                  const KvWish& wish);

// "weights 1.2 GiB, KV 96.0 MiB (...), total 1.5 GiB".
std::string Describe(const MemoryPlan& plan);

// "1.5 GiB", "312.0 MiB", "12 KiB", "7 B".
std::string FormatBytes(uint64_t bytes);

}  // namespace hadal
