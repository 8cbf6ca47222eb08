// What the operator sets and the scheduler keeps to.
#pragma once

#include <cstdint>

namespace hadal {

enum class Batching : uint8_t {
  kContinuous,  // sequences come and go with every step
  kStatic,      // a batch is collected, computed to its last token, and only then the next begins
};

// How a running sequence gives up its pages when they run short.
enum class PreemptionMode : uint8_t {
  kAuto,       // whatever the cost model says is cheaper
  kSwap,       // to the swap space as long as it has room
  kRecompute,  // computed again from its tokens
};

// Which pages a sequence has promised when it is admitted.
enum class PagePromise : uint8_t {
  kExpected,  // its prompt; what it may be expected to generate counts too, preemption covers more
  kPrompt,    // its prompt, whatever comes: most run at once, and most are preempted
  kMaximum,   // all it can ever need: it is never preempted
};

// Whether the tokens that followed an earlier occurrence of a text's last ones are tried as a draft
// of the next ones. Outputs are the same; only time differs.
enum class Speculation : uint8_t {
  kOff,
  kAuto,    // as far as the cost model and the drafts that came true promise more tokens per second
  kAlways,  // whenever there is a draft and room for it in the step
};

struct SchedulerLimits {
  uint32_t max_tokens = 512;     // per step
  uint32_t max_sequences = 64;   // running at once
  uint32_t max_logit_rows = 64;  // per step
  uint64_t max_context = 4096;   // prompt and generated tokens of one sequence
  bool reuse_prefixes = true;    // KV of earlier texts that begin alike
  // The values in the KV depend on the prompt's length (RopeTable::length_dependent): then only
  // prompts of equal length can share them.
  bool kv_depends_on_length = false;

  PagePromise promise = PagePromise::kExpected;
  PreemptionMode preemption = PreemptionMode::kAuto;
  uint64_t swap_bytes = 0;

  // Seconds; 0: none. Prompts are cut so that a step that carries decodes stays within itl_target,
  // as far as the cost model can tell; a prompt about to miss ttft_target may make it twice that.
  double itl_target = 0;
  double ttft_target = 0;
  uint32_t min_chunk = 16;  // prompt tokens that every step may carry all the same

  // One level of priority is worth so much waiting: nobody is overtaken for ever.
  double priority_seconds = 10;

  Speculation speculation = Speculation::kOff;
  uint32_t max_draft = 8;  // tokens of one draft

  Batching batching = Batching::kContinuous;
  uint32_t static_batch = 32;    // kStatic: sequences in a batch, at most max_sequences
  double static_seconds = 0.05;  // kStatic: how long a batch is waited for
};

}  // namespace hadal
