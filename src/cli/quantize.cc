#include "formats/quantize.h"

#include <fmt/core.h>

#include <cstdio>

#include "base/error.h"
#include "cli/output.h"
#include "cli/session.h"

namespace hadal::cli {

int Quantize(const Arguments& arguments) {
  const OptionValues& options = arguments.options;
  DType type = DType::kQ8_0;
  if (!options.Given("type")) {
    Fail(ErrorKind::kUsage, "--type is needed: q8_0, q4_0, q4_1, bf16 or f16");
  }
  ParseDType(options.Text("type"), type);
  const Checkpoint checkpoint = Checkpoint::Open(arguments.positional[0]);
  const InterruptScope interrupt;
  const QuantizeReport report = QuantizeCheckpoint(
      checkpoint, arguments.positional[1], type, [](uint64_t done, uint64_t total) {
        if (ShowsProgress()) {
          fmt::print(stderr, "\r{:3.0f} %",
                     100.0 * static_cast<double>(done) / static_cast<double>(total));
        }
        return !InterruptScope::interrupted();
      });
  if (ShowsProgress()) std::fputs("\r\033[K", stderr);
  for (const std::string& name : report.fallbacks) {
    fmt::print("{}: rows do not divide into blocks of {}, written as f16\n", name, Name(type));
  }
  fmt::print("{}: {} tensors, {:.1f} MiB (from {:.1f} MiB)\n", arguments.positional[1],
             report.tensors, static_cast<double>(report.bytes) / (1 << 20),
             static_cast<double>(checkpoint.file_bytes()) / (1 << 20));
  return 0;
}

}  // namespace hadal::cli
