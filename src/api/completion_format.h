// Replies of POST /completions.
#pragma once

#include <vector>

#include "api/reply_format.h"
#include "tokenizer/tokenizer.h"

namespace hadal::api {

struct CompletionFormatOptions {
  bool logprobs = false;
  bool echo = false;           // the prompt stands before the text
  bool include_usage = false;  // of a stream
};

// The tokenizer must outlive it.
class CompletionFormat final : public ReplyFormat {
 public:
  CompletionFormat(ReplyHead head, const CompletionFormatOptions& options,
                   const Tokenizer& tokenizer);

  OrderedJson Whole(const Generation& generation,
                    const std::vector<ChoiceDelta>& choices) const override;
  // The prompt, where it is to be echoed.
  std::optional<OrderedJson> Begin(const Generation& generation, uint32_t choice) override;
  OrderedJson Delta(uint32_t choice, const ChoiceDelta& delta) override;
  OrderedJson End(uint32_t choice, const Choice& ended) const override;
  OrderedJson Usage(const UsageTotals& usage) const override;

 private:
  OrderedJson Chunk(OrderedJson choice) const;

  ReplyHead head_;
  CompletionFormatOptions options_;
  const Tokenizer& tokenizer_;
  struct Sent {
    size_t bytes = 0, characters = 0;
  };
  std::vector<Sent> sent_;  // per choice
};

}  // namespace hadal::api
