#include <fmt/core.h>

#include <cstdio>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/utf8.h"
#include "chat/conversation.h"
#include "cli/prompt.h"
#include "formats/checkpoint.h"

namespace hadal::cli {
namespace {

MarkedText RenderConversation(const Vocabulary& vocabulary, const Tokenizer& tokenizer,
                              const OptionValues& options) {
  const std::string path = options.Text("chat");
  ChatInput input = ParseChatInput(ReadTextFile(path), path);
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

void PrintJson(const Tokenizer& tokenizer, const std::vector<EncodedToken>& tokens) {
  OrderedJson json = {{"ids", OrderedJson::array()},
                      {"pieces", OrderedJson::array()},
                      {"offsets", OrderedJson::array()}};
  for (const EncodedToken& token : tokens) {
    json["ids"].push_back(token.id);
    json["pieces"].push_back(ReplaceInvalidUtf8(tokenizer.Piece(token.id)));
    json["offsets"].push_back({token.begin, token.end});
  }
  fmt::print("{}\n", json.dump());
}

void PrintTable(const Tokenizer& tokenizer, const std::vector<EncodedToken>& tokens) {
  fmt::print("{:>8} {:>9} {:>9}  piece\n", "id", "begin", "end");
  for (const EncodedToken& token : tokens) {
    fmt::print("{:>8} {:>9} {:>9}  {}\n", token.id, token.begin, token.end,
               OrderedJson(ReplaceInvalidUtf8(tokenizer.Piece(token.id))).dump());
  }
  fmt::print("{} tokens\n", tokens.size());
}

}  // namespace

int Tokenize(const Arguments& arguments) {
  const OptionValues& options = arguments.options;
  const Vocabulary vocabulary = Checkpoint::OpenVocabulary(arguments.positional[0]);
  const Tokenizer tokenizer = Tokenizer::Create(vocabulary);
  if (options.Flag("bos") && options.Flag("no-bos")) {
    Fail(ErrorKind::kUsage, "--bos and --no-bos contradict each other");
  }
  if (options.Given("decode")) {
    const std::string text = tokenizer.Decode(ParseIds(options, tokenizer));
    if (options.Flag("json")) {
      fmt::print("{}\n", OrderedJson{{"text", text}}.dump());
    } else {
      std::fwrite(text.data(), 1, text.size(), stdout);
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
      std::fwrite(input.text.data(), 1, input.text.size(), stdout);
      return 0;
    }
    encode.data_ranges = input.data_ranges;
    encode.add_bos = false;  // the template decides
  } else {
    input.text = ReadInput(arguments);
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
