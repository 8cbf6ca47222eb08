#include "formats/quantize.h"

#include <fmt/core.h>

#include "base/error.h"
#include "cli/output.h"
#include "cli/session.h"

namespace hadal::cli {

namespace {

QuantizeReport Convert(const Checkpoint& checkpoint, const std::string& path, DType type) {
  const InterruptScope interrupt;
  ProgressLine line;
  return QuantizeCheckpoint(checkpoint, path, type, [&line](uint64_t done, uint64_t total) {
    line.Show(
        fmt::format("{:3.0f} %", 100.0 * static_cast<double>(done) / static_cast<double>(total)));
    return !InterruptScope::interrupted();
  });
}

}  // namespace

int Quantize(const Arguments& arguments) {
  const OptionValues& options = arguments.options;
  DType type = DType::kQ8_0;
  if (!options.Given("type")) {
    Fail(ErrorKind::kUsage, "--type is needed: q8_0, q4_0, q4_1, bf16 or f16");
  }
  ParseDType(options.Text("type"), type);
  const Checkpoint checkpoint = Checkpoint::Open(arguments.positional[0]);
  const QuantizeReport report = Convert(checkpoint, arguments.positional[1], type);
  for (const std::string& name : report.fallbacks) {
    fmt::print("{}: rows do not divide into blocks of {}, written as f16\n", name, Name(type));
  }
  fmt::print("{}: {} tensors, {:.1f} MiB (from {:.1f} MiB)\n", arguments.positional[1],
             report.tensors, static_cast<double>(report.bytes) / (1 << 20),
             static_cast<double>(checkpoint.file_bytes()) / (1 << 20));
  return 0;
}

}  // namespace hadal::cli
