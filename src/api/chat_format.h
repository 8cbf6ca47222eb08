// Replies of POST /chat/completions.
#pragma once

#include "api/reply_format.h"
#include "tokenizer/tokenizer.h"

namespace hadal::api {

struct ChatFormatOptions {
  bool logprobs = false;
  bool reasoning_alias = false;  // thoughts also as `reasoning`, vLLM's name
  bool include_usage = false;    // of a stream
};

// The tokenizer must outlive it.
class ChatFormat final : public ReplyFormat {
 public:
  ChatFormat(ReplyHead head, const ChatFormatOptions& options, const Tokenizer& tokenizer);

  OrderedJson Whole(const Generation& generation,
                    const std::vector<ChoiceDelta>& choices) const override;
  // The role, once: clients concatenate what comes twice.
  std::optional<OrderedJson> Begin(const Generation& generation, uint32_t choice) override;
  OrderedJson Delta(uint32_t choice, const ChoiceDelta& delta) override;
  OrderedJson End(uint32_t choice, const Choice& ended) const override;
  OrderedJson Usage(const UsageTotals& usage) const override;

 private:
  OrderedJson Chunk(OrderedJson choice) const;

  ReplyHead head_;
  ChatFormatOptions options_;
  const Tokenizer& tokenizer_;
};

}  // namespace hadal::api
