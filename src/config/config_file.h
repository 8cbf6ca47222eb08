// Options from a file: the same table as the command line's.
#pragma once

#include <filesystem>

#include "config/options.h"

namespace hadal {

// Reads a YAML (or JSON) mapping of option names ("max-num-seqs" or "max_num_seqs") to values and
// sets those that `values` does not have yet: the command line wins. A flag takes true or false, an
// option that may be repeated a list. Throws Error(kUsage) that names file, line and option.
void ApplyConfigFile(const std::filesystem::path& path, OptionValues& values);

}  // namespace hadal
