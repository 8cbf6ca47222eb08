#include "cli/figures.h"

#include <fmt/core.h>
#include <sys/resource.h>

namespace hadal::cli {

Figures MeasureFigures(const Session& session, const Usage& usage) {
  Figures figures;
  figures.usage = usage;
  const double computed = usage.prompt_tokens - usage.cached_tokens;
  if (usage.prefill_seconds > 0) figures.prefill_tok_s = computed / usage.prefill_seconds;
  // The first generated token comes out of the prefill.
  const double decoded = usage.generated_tokens > 0 ? usage.generated_tokens - 1.0 : 0.0;
  if (usage.decode_seconds > 0 && decoded > 0) {
    figures.decode_tok_s = decoded / usage.decode_seconds;
    const double context = usage.prompt_tokens + decoded / 2;
    const double bytes = static_cast<double>(session.model.bytes().step_weights) +
                         context * static_cast<double>(session.kv.layout.bytes_per_token());
    figures.decode_gbs = figures.decode_tok_s * bytes / 1e9;
  }
  rusage resources{};
  getrusage(RUSAGE_SELF, &resources);
  figures.peak_rss = static_cast<uint64_t>(resources.ru_maxrss) * 1024;
  return figures;
}

std::string Describe(const Figures& f) {
  const std::string cached =
      f.usage.cached_tokens == 0 ? "" : fmt::format(" ({} cached)", f.usage.cached_tokens);
  return fmt::format(
      "prompt {} tokens{}, prefill {:.1f} tokens/s, generated {} tokens, decode {:.1f} tokens/s, "
      "{:.1f} GB/s read, peak memory {:.1f} MiB",
      f.usage.prompt_tokens, cached, f.prefill_tok_s, f.usage.generated_tokens, f.decode_tok_s,
      f.decode_gbs, static_cast<double>(f.peak_rss) / (1 << 20));
}

}  // namespace hadal::cli
