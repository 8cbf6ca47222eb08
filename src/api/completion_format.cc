#include "api/completion_format.h"

#include <utility>

namespace hadal::api {
namespace {

// Adds the tokens of a text that begins `bytes` and `characters` into its choice.
void AddTokens(const ChoiceDelta& delta, size_t bytes, size_t characters,
               CompletionLogprobs& logprobs) {
  const std::string_view text = delta.output.content;
  for (const TokenEntry& entry : delta.tokens) {
    const std::string_view before = text.substr(0, entry.text_begin - bytes);
    logprobs.Add(entry.logprobs, characters + CountCharacters(before));
  }
}

// The prompt's tokens as the beginning of the text. Returns its characters.
size_t AddPrompt(const Generation& generation, uint32_t choice, const Tokenizer& tokenizer,
                 CompletionLogprobs& logprobs) {
  const std::vector<int32_t>& prompt = generation.prompt(choice);
  const std::vector<TokenLogprobs>& values = generation.prompt_logprobs(choice);
  IncrementalDecoder decoder(tokenizer, true);
  size_t offset = 0;
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (i == 0 || i > values.size()) {
      logprobs.AddUnscored(prompt[i], offset);
    } else {
      logprobs.Add(values[i - 1], offset);
    }
    offset += CountCharacters(decoder.Push(prompt[i]));
  }
  return offset + CountCharacters(decoder.Flush());
}

}  // namespace

CompletionFormat::CompletionFormat(ReplyHead head, const CompletionFormatOptions& options,
                                   const Tokenizer& tokenizer)
    : head_(std::move(head)), options_(options), tokenizer_(tokenizer) {}

OrderedJson CompletionFormat::Whole(const Generation& generation,
                                    const std::vector<ChoiceDelta>& choices) const {
  OrderedJson list = OrderedJson::array();
  for (uint32_t i = 0; i < choices.size(); ++i) {
    const Choice& choice = generation.choice(i);
    CompletionLogprobs logprobs(tokenizer_);
    const std::string prompt =
        options_.echo ? tokenizer_.Decode(generation.prompt(i), true) : std::string();
    size_t characters = 0;
    if (options_.echo && options_.logprobs) {
      characters = AddPrompt(generation, i, tokenizer_, logprobs);
    }
    AddTokens(choices[i], 0, characters, logprobs);
    OrderedJson json = {{"index", i},
                        {"text", prompt + choices[i].output.content},
                        {"logprobs", options_.logprobs ? logprobs.Json() : OrderedJson(nullptr)},
                        {"finish_reason", choice.finish_reason()},
                        {"stop_reason", choice.stop_reason()}};
    if (generation.wants_prompt_logprobs()) {
      json["prompt_logprobs"] = PromptLogprobsJson(generation.prompt_logprobs(i), tokenizer_);
    }
    list.push_back(std::move(json));
  }
  OrderedJson reply = head_.Json("text_completion");
  reply["choices"] = std::move(list);
  reply["usage"] = UsageJson(generation.usage());
  return reply;
}

OrderedJson CompletionFormat::Chunk(OrderedJson choice) const {
  return head_.Chunk("text_completion", std::move(choice), options_.include_usage);
}

std::optional<OrderedJson> CompletionFormat::Begin(const Generation& generation, uint32_t choice) {
  if (!options_.echo) return std::nullopt;
  return Chunk({{"index", choice},
                {"text", tokenizer_.Decode(generation.prompt(choice), true)},
                {"logprobs", nullptr},
                {"finish_reason", nullptr}});
}

OrderedJson CompletionFormat::Delta(uint32_t choice, const ChoiceDelta& delta) {
  if (sent_.size() <= choice) sent_.resize(choice + 1);
  Sent& sent = sent_[choice];
  OrderedJson logprobs = nullptr;
  if (options_.logprobs) {
    CompletionLogprobs lists(tokenizer_);
    AddTokens(delta, sent.bytes, sent.characters, lists);
    logprobs = lists.Json();
  }
  sent.bytes += delta.output.content.size();
  sent.characters += CountCharacters(delta.output.content);
  return Chunk({{"index", choice},
                {"text", delta.output.content},
                {"logprobs", std::move(logprobs)},
                {"finish_reason", nullptr}});
}

OrderedJson CompletionFormat::End(uint32_t choice, const Choice& ended) const {
  return Chunk({{"index", choice},
                {"text", ""},
                {"logprobs", nullptr},
                {"finish_reason", ended.finish_reason()},
                {"stop_reason", ended.stop_reason()}});
}

OrderedJson CompletionFormat::Usage(const UsageTotals& usage) const {
  OrderedJson chunk = Chunk(nullptr);
  chunk["usage"] = UsageJson(usage);
  return chunk;
}

}  // namespace hadal::api
