#include "cli/figures.h"

#include <fmt/core.h>
#include <sys/resource.h>

namespace hadal::cli {

Figures MeasureFigures(const Session& session, const Usage& usage, const RequestReport& report) {
  Figures figures;
  figures.usage = usage;
  figures.drafted_tokens = report.drafted_tokens;
  figures.accepted_tokens = report.accepted_tokens;
  const double computed = usage.prompt_tokens - usage.cached_tokens;
  if (usage.prefill_seconds > 0) figures.prefill_tok_s = computed / usage.prefill_seconds;
  // The first generated token comes out of the prefill.
  const double decoded = usage.generated_tokens > 0 ? usage.generated_tokens - 1.0 : 0.0;
  if (usage.decode_seconds > 0 && decoded > 0) {
    figures.decode_tok_s = decoded / usage.decode_seconds;
    const double context = usage.prompt_tokens + decoded / 2;
    const double bytes = static_cast<double>(session.model.bytes().step_weights) +
                         context * static_cast<double>(session.kv.layout.bytes_per_token());
    const double steps = decoded - report.accepted_tokens;
    figures.decode_gbs = steps * bytes / usage.decode_seconds / 1e9;
  }
  rusage resources{};
  getrusage(RUSAGE_SELF, &resources);
  figures.peak_rss = static_cast<uint64_t>(resources.ru_maxrss) * 1024;
  return figures;
}

std::string Describe(const Figures& f) {
  const std::string cached =
      f.usage.cached_tokens == 0 ? "" : fmt::format(" ({} cached)", f.usage.cached_tokens);
  const std::string drafts =
      f.drafted_tokens == 0
          ? ""
          : fmt::format(" ({} of {} drafts came true)", f.accepted_tokens, f.drafted_tokens);
  return fmt::format(
      "prompt {} tokens{}, prefill {:.1f} tokens/s, generated {} tokens, decode {:.1f} tokens/s{}, "
      "{:.1f} GB/s read, peak memory {:.1f} MiB",
      f.usage.prompt_tokens, cached, f.prefill_tok_s, f.usage.generated_tokens, f.decode_tok_s,
      drafts, f.decode_gbs, static_cast<double>(f.peak_rss) / (1 << 20));
}

}  // namespace hadal::cli
