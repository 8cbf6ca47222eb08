#include "chat/tool_call_format.h"

#include <fmt/ranges.h>

#include "base/check.h"
#include "base/error.h"
#include "chat/tool_call_parser.h"
#include "chat/tool_markers.h"

namespace hadal {
namespace {

struct NamedFormat {
  std::string_view name;
  ToolFormat format;
};

constexpr NamedFormat kNames[] = {
    {"none", ToolFormat::kNone},
    {"deepseek_v3", ToolFormat::kDeepSeek},
    {"deepseek_r1", ToolFormat::kDeepSeek},
    {"deepseek_v31", ToolFormat::kDeepSeek},
    {"hermes", ToolFormat::kHermes},
    {"qwen", ToolFormat::kHermes},
    {"llama3_json", ToolFormat::kLlama},
};

class PlainText final : public ToolCallParser {
 public:
  void Push(char c, OutputSink& sink) override { sink.Content(std::string_view(&c, 1)); }
  bool Finish(OutputSink& /*sink*/) override { return true; }
};

}  // namespace

ToolFormat DetectToolFormat(std::string_view template_source) {
  const auto has = [&](std::string_view text) {
    return template_source.find(text) != std::string_view::npos;
  };
  if (has(tool_markers::kDeepSeekCallBegin)) return ToolFormat::kDeepSeek;
  if (has(tool_markers::kHermesBegin)) {
    // Others put XML between the same tags.
    const bool xml = has("<function=") || has("<arg_key>");
    return xml ? ToolFormat::kNone : ToolFormat::kHermes;
  }
  if (has("<|start_header_id|>") && has("{\"name\": function name, \"parameters\":")) {
    return ToolFormat::kLlama;
  }
  return ToolFormat::kNone;
}

std::vector<std::string> ToolFormatNames() {
  std::vector<std::string> names;
  for (const NamedFormat& entry : kNames) names.emplace_back(entry.name);
  return names;
}

ToolFormat ToolFormatOfName(std::string_view name) {
  for (const NamedFormat& entry : kNames) {
    if (entry.name == name) return entry.format;
  }
  Fail(ErrorKind::kUsage, "tool parser '{}' is not known; there are: {}", name,
       fmt::join(ToolFormatNames(), ", "));
}

std::span<const std::string_view> ToolFormatMarkers(ToolFormat format) {
  switch (format) {
    case ToolFormat::kNone:
      return {};
    case ToolFormat::kDeepSeek:
      return tool_markers::kDeepSeek;
    case ToolFormat::kHermes:
      return tool_markers::kHermes;
    case ToolFormat::kLlama:
      return tool_markers::kLlama;
  }
  HADAL_CHECK(false);
  return {};
}

std::unique_ptr<ToolCallParser> MakeToolCallParser(ToolFormat format) {
  switch (format) {
    case ToolFormat::kNone:
      return std::make_unique<PlainText>();
    case ToolFormat::kDeepSeek:
      return MakeDeepSeekToolParser();
    case ToolFormat::kHermes:
      return MakeHermesToolParser();
    case ToolFormat::kLlama:
      return MakeLlamaToolParser();
  }
  HADAL_CHECK(false);
  return nullptr;
}

}  // namespace hadal
