// Sampling flags -> SamplingParams.
#pragma once

#include "config/options.h"
#include "sampling/params.h"
#include "tokenizer/tokenizer.h"

namespace hadal::cli {

// Throws Error(kUsage) naming the flag.
SamplingParams ReadSampling(const OptionValues& options, const Tokenizer& tokenizer);

}  // namespace hadal::cli
