// What a request cost, in one line.
#pragma once

#include <string>

#include "cli/session.h"
#include "sched/events.h"

namespace hadal::cli {

struct Figures {
  Usage usage;
  uint32_t drafted_tokens = 0;  // see RequestReport
  uint32_t accepted_tokens = 0;
  double prefill_tok_s = 0;  // prompt tokens computed (cached ones not) per second
  double decode_tok_s = 0;
  double decode_gbs = 0;  // packed weights and KV read per second while decoding
  uint64_t peak_rss = 0;  // bytes the process had resident at most
};

Figures MeasureFigures(const Session& session, const Usage& usage, const RequestReport& report);

// "prompt 36 tokens, prefill 812.4 tokens/s, generated 8 tokens, decode 95.1 tokens/s, ..."
std::string Describe(const Figures& figures);

}  // namespace hadal::cli
