// Input: a byte that chooses format and start, a byte that seeds the cuts, and the text.
#include <cstdint>
#include <random>
#include <string_view>

#include "base/utf8.h"
#include "chat/output_parser.h"

namespace {

void Check(bool good) {
  if (!good) __builtin_trap();
}

hadal::ParsedOutput ParseInPieces(std::string_view text, size_t longest, uint8_t seed,
                                  const hadal::OutputParserOptions& options) {
  std::minstd_rand random(seed + 1u);
  hadal::OutputParser parser(options);
  hadal::ParsedOutput output;
  const auto add = [&](const hadal::OutputDelta& delta) {
    Check(hadal::FindInvalidUtf8(delta.reasoning) == std::string::npos);
    Check(hadal::FindInvalidUtf8(delta.content) == std::string::npos);
    for (const hadal::ToolCallDelta& call : delta.tool_calls) {
      Check(hadal::FindInvalidUtf8(call.name) == std::string::npos);
      Check(hadal::FindInvalidUtf8(call.arguments) == std::string::npos);
    }
    output.Add(delta);
  };
  while (!text.empty()) {
    const size_t size = std::min<size_t>(text.size(), 1 + random() % longest);
    add(parser.Push(text.substr(0, size)));
    text.remove_prefix(size);
  }
  add(parser.Finish());
  output.complete = parser.complete();
  return output;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  hadal::OutputParserOptions options;
  options.tool_format = static_cast<hadal::ToolFormat>(data[0] % 4);
  options.reasoning = static_cast<hadal::ReasoningStart>(data[0] / 4 % 3);
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const hadal::ParsedOutput whole = hadal::ParseOutput(text, options);
  for (const hadal::ParsedOutput::Call& call : whole.tool_calls) {
    Check(!call.id.empty() && !call.name.empty());
  }
  Check(ParseInPieces(text, 1, 0, options) == whole);
  Check(ParseInPieces(text, 1 + data[1] % 32u, data[1], options) == whole);
  return 0;
}
