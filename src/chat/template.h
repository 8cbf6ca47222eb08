// Chat templates: the Jinja program that ships with a model and turns a conversation into its
// prompt.
//
// The language is Jinja2 as Hugging Face transformers sets it up (sandbox, trim_blocks,
// lstrip_blocks, loop controls, `generation` blocks, tojson without HTML escapes, strftime_now,
// raise_exception), without inheritance and imports. Lists and dicts may be mutated; the filter
// `from_json` is an addition.
#pragma once

#include <cstddef>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "chat/marked_text.h"

namespace hadal {

// What a template is given. All but `special_tokens` and `now` is data: see MarkedText.
struct ChatInput {
  OrderedJson messages = OrderedJson::array();
  OrderedJson tools;      // null when absent
  OrderedJson documents;  // null when absent
  bool add_generation_prompt = false;
  OrderedJson extra = OrderedJson::object();          // further variables
  std::map<std::string, std::string> special_tokens;  // bos_token, eos_token, pad_token, ...
  std::time_t now = 0;                                // strftime_now shows it in local time
};

// Bounds on one rendering (and, for `depth`, on parsing), so that no template and no message can
// hang the caller, overflow its stack or eat its memory.
struct TemplateLimits {
  size_t steps = 50'000'000;         // evaluated nodes, plus work in units of 16 bytes or 1 item
  int depth = 1000;                  // nested expressions, statements and macro calls
  size_t output_bytes = 64u << 20;   // of the result, and of each captured block
  size_t memory_bytes = 512u << 20;  // of all values made while rendering, input included
};

namespace jinja {
struct Program;
}

// Immutable after construction; Render may be called from many threads at once.
class ChatTemplate {
 public:
  // Throws Error(kInvalid) that names the line when `source` is not a template we can run.
  explicit ChatTemplate(std::string_view source, const TemplateLimits& limits = {});
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // Throws Error(kInvalid): the message of raise_exception as it is, or "chat template, line N:
  // ...".
  MarkedText Render(const ChatInput& input) const;

 private:
  TemplateLimits limits_;
  std::unique_ptr<const jinja::Program> program_;
};

}  // namespace hadal
