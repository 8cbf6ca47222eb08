// Input: a template, a NUL byte, and the JSON of a conversation (or nothing for a built-in one).
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "chat/conversation.h"
#include "chat/template.h"

namespace {

constexpr std::string_view kConversation =
    R"({"messages": [{"role": "user", "content": "a<b>\n\u00e9"},
                     {"role": "assistant", "content": null, "tool_calls": [{"function":
                       {"name": "f", "arguments": {"x": 1.5, "y": [1, null, true]}}}]}],
        "tools": [{"type": "function"}], "add_generation_prompt": true,
        "extra": {"a": 7, "b": -3, "f": 2.5, "t": true, "n": null, "s": "Hello World",
                  "u": "Gr\u00fc\u00dfe \ud83d\ude00", "blank": " \t\n x ", "q": "it's \"q\"",
                  "l": [3, 1, 2], "m": ["b", "A"], "e": [], "d": {"x": 1, "y": [1, 2]},
                  "html": "<b>&'", "users": [{"name": "Bo", "age": 3, "tags": ["p"]}],
                  "nested": [[1, [2, null]], {"a": {"b": [true, 1.0, 1e20]}}],
                  "tree": [{"n": 1, "c": [{"n": 2, "c": []}]}]}})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find('\0');
  const std::string_view json =
      cut == std::string_view::npos ? kConversation : input.substr(cut + 1);
  hadal::TemplateLimits limits;
  limits.steps = 200'000;
  limits.memory_bytes = 8 << 20;
  limits.output_bytes = 1 << 20;
  try {
    const hadal::ChatTemplate program(input.substr(0, cut), limits);
    hadal::ChatInput chat = hadal::ParseChatInput(json, "input");
    chat.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    const hadal::MarkedText text = program.Render(chat);
    size_t last = 0;
    for (const hadal::ByteRange& range : text.data_ranges) {
      if (range.begin >= range.end || range.end > text.size() ||
          (last != 0 && range.begin <= last)) {
        __builtin_trap();
      }
      last = range.end;
    }
  } catch (const hadal::Error&) {
  }
  return 0;
}
