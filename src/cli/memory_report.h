// What a loaded model has taken, in the plan's own categories.
#pragma once

#include <string>

#include "cli/session.h"
#include "metrics/metrics.h"

namespace hadal::cli {

// Bytes allocated by category. The overhead is what the process has taken besides: measured, so
// call it before the first step touches the buffers.
MemoryBytes ReservedMemory(const Session& session, uint64_t tokenizer_bytes);

// Sets the gauges hadal_memory_*_bytes; those of KV and swap in use are the engine's to keep.
void ReportMemory(const MemoryBytes& planned, const MemoryBytes& reserved, Metrics& metrics);

// "weights 1.2 GiB, kv 96.0 MiB, ..., together 1.5 GiB of 90 % of the 2.0 GiB ..."
std::string DescribeMemory(const MemoryBytes& bytes);

}  // namespace hadal::cli
