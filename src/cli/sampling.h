// Sampling flags -> SamplingParams.
#pragma once

#include "config/options.h"
#include "sampling/params.h"
#include "tokenizer/tokenizer.h"

namespace hadal::cli {

// Throws Error(kUsage) naming the flag.
SamplingParams ReadSampling(const OptionValues& options, const Tokenizer& tokenizer);

// Tokens that no repeated run crosses: line ends, colons, quotes and asterisks, where lists and
// dialogues repeat themselves by right. Ascending.
std::vector<int32_t> DryBreakers(const Tokenizer& tokenizer);

}  // namespace hadal::cli
