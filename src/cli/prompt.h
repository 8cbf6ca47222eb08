// From what the user typed to token ids: input text, chat template, tokenizer.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "base/json.h"
#include "chat/prompt_tokens.h"
#include "chat/template.h"
#include "cli/command.h"
#include "spec/vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace hadal::cli {

// The text of -p, -f or "-" (standard input), byte for byte. Throws Error(kUsage) unless exactly
// one is given.
std::string ReadInput(const Arguments& arguments);

// --now as seconds since the epoch, or the clock.
std::time_t ReadNow(const OptionValues& options);

// The Jinja source of the file of --chat-template, or the model's own; empty when there is none.
std::string TemplateSource(const Vocabulary& vocabulary, const OptionValues& options);

// The template of that source. Throws Error(kInvalid) when it is empty.
ChatTemplate ParseTemplate(const std::string& source, const Vocabulary& vocabulary);

// The model's template, or the file of --chat-template. Throws Error(kInvalid) when there is none.
ChatTemplate ReadTemplate(const Vocabulary& vocabulary, const OptionValues& options);

OrderedJson Message(std::string_view role, std::string_view content);

// The text of a file, byte for byte; "-" is standard input.
std::string ReadFileOrInput(const std::string& path);

// --system, which must be UTF-8.
std::string SystemMessage(const OptionValues& options);

// Puts what is not UTF-8 in a text into words: an Error(kInvalid) that names `what` and the byte.
void RequireUtf8(std::string_view text, std::string_view what);

}  // namespace hadal::cli
