#include <fmt/core.h>

#include <cstdio>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/utf8.h"
#include "chat/conversation.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "formats/checkpoint.h"

namespace hadal::cli {
namespace {

MarkedText RenderConversation(const Vocabulary& vocabulary, const Tokenizer& tokenizer,
                              const OptionValues& options) {
  const std::string path = options.Text("chat");
  ChatInput input = ParseChatInput(ReadFileOrInput(path), path == "-" ? "standard input" : path);
  input.special_tokens = SpecialTokens(vocabulary, tokenizer);
  input.now = ReadNow(options);
  return ReadTemplate(vocabulary, options).Render(input);
}

std::vector<int32_t> ParseIds(const OptionValues& options, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (const int64_t id : ParseIntegers(options.Text("decode"), "--decode")) {
    if (id < 0 || id >= tokenizer.vocab_size()) {
      Fail(ErrorKind::kInvalid, "token id {} is outside the vocabulary of {}", id,
           tokenizer.vocab_size());
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

// tokenizer.Encode obeys the model on BOS; --bos and --no-bos overrule it.
std::vector<EncodedToken> Encode(const Tokenizer& tokenizer, std::string_view text,
                                 const EncodeOptions& encode, const OptionValues& options) {
  std::vector<EncodedToken> tokens = tokenizer.EncodeWithOffsets(text, encode);
  if (!options.Flag("bos")) return tokens;
  if (tokenizer.bos_id() < 0) Fail(ErrorKind::kInvalid, "--bos: the model has no BOS token");
  if (tokens.empty() || tokens.front().id != tokenizer.bos_id()) {
    tokens.insert(tokens.begin(), {tokenizer.bos_id(), 0, 0});
  }
  return tokens;
}

// The pieces of one JSON array, written as they come: a text of megabytes has millions of them.
template <typename Piece>
void PrintArray(const std::vector<EncodedToken>& tokens, const Piece& piece) {
  std::fputc('[', stdout);
  const char* separator = "";
  for (const EncodedToken& token : tokens) {
    fmt::print("{}{}", separator, piece(token));
    separator = ",";
  }
  std::fputc(']', stdout);
}

void PrintJson(const Tokenizer& tokenizer, const std::vector<EncodedToken>& tokens) {
  std::fputs("{\"ids\":", stdout);
  PrintArray(tokens, [](const EncodedToken& token) { return token.id; });
  std::fputs(",\"pieces\":", stdout);
  PrintArray(tokens, [&tokenizer](const EncodedToken& token) {
    return Json(ReplaceInvalidUtf8(tokenizer.Piece(token.id))).dump();
  });
  std::fputs(",\"offsets\":", stdout);
  PrintArray(tokens, [](const EncodedToken& token) {
    return fmt::format("[{},{}]", token.begin, token.end);
  });
  std::fputs("}\n", stdout);
}

void PrintTable(const Tokenizer& tokenizer, const std::vector<EncodedToken>& tokens) {
  fmt::print("{:>8} {:>9} {:>9}  piece\n", "id", "begin", "end");
  for (const EncodedToken& token : tokens) {
    fmt::print("{:>8} {:>9} {:>9}  {}\n", token.id, token.begin, token.end,
               OrderedJson(ReplaceInvalidUtf8(tokenizer.Piece(token.id))).dump());
  }
  fmt::print("{} tokens\n", tokens.size());
}

// One source of tokens, and only flags that say something about it.
void CheckFlags(const Arguments& arguments) {
  const OptionValues& options = arguments.options;
  if (options.Flag("bos") && options.Flag("no-bos")) {
    Fail(ErrorKind::kUsage, "--bos and --no-bos contradict each other");
  }
  const bool text =
      options.Given("prompt") || options.Given("file") || !arguments.positional.back().empty();
  if (text + options.Given("chat") + options.Given("decode") > 1) {
    Fail(ErrorKind::kUsage, "give one of -p, -f, -, --chat and --decode");
  }
  for (const char* key : {"render", "chat-template", "now"}) {
    if (options.Given(key) && !options.Given("chat")) {
      Fail(ErrorKind::kUsage, "--{} has no meaning without --chat FILE", key);
    }
  }
}

}  // namespace

int Tokenize(const Arguments& arguments) {
  const OptionValues& options = arguments.options;
  const Vocabulary vocabulary = Checkpoint::OpenVocabulary(arguments.positional[0]);
  const Tokenizer tokenizer = Tokenizer::Create(vocabulary);
  CheckFlags(arguments);
  if (options.Given("decode")) {
    const std::string text = tokenizer.Decode(ParseIds(options, tokenizer));
    if (options.Flag("json")) {
      fmt::print("{}\n", OrderedJson{{"text", ReplaceInvalidUtf8(text)}}.dump());
    } else {
      PrintBytes(text);
    }
    return 0;
  }

  EncodeOptions encode{.add_bos = !options.Flag("no-bos"),
                       .parse_special = !options.Flag("no-parse-special"),
                       .data_ranges = {}};
  MarkedText input;
  if (options.Given("chat")) {
    input = RenderConversation(vocabulary, tokenizer, options);
    if (options.Flag("render")) {
      if (options.Flag("json")) {
        fmt::print("{}\n", OrderedJson{{"text", ReplaceInvalidUtf8(input.text)}}.dump());
      } else {
        PrintBytes(input.text);
      }
      return 0;
    }
    encode.data_ranges = input.data_ranges;
    encode.add_bos = false;  // the template decides
  } else {
    input.text = ReadInput(arguments);
    // Nothing in, nothing out: a BOS token comes before a text.
    if (input.text.empty()) encode.add_bos = false;
  }
  const std::vector<EncodedToken> tokens = Encode(tokenizer, input.text, encode, options);
  if (options.Flag("json")) {
    PrintJson(tokenizer, tokens);
  } else {
    PrintTable(tokenizer, tokens);
  }
  return 0;
}

}  // namespace hadal::cli
