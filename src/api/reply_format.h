// What differs between the replies of the two completion routes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/generation.h"
#include "base/json.h"

namespace hadal::api {

// What every reply and chunk begins with.
struct ReplyHead {
  std::string id;
  int64_t created = 0;
  std::string model;  // as the client named it
  std::string system_fingerprint;

  OrderedJson Json(std::string_view object) const;
  // A chunk of a stream with one choice, or with none when it is null; `with_usage`: where the
  // stream ends with the usage, every chunk has the member.
  OrderedJson Chunk(std::string_view object, OrderedJson choice, bool with_usage) const;
};

// A reply, whole or as the chunks of a stream, each one JSON document. Used for one request.
class ReplyFormat {
 public:
  virtual ~ReplyFormat() = default;

  // `choices`: all deltas of each choice, appended.
  virtual OrderedJson Whole(const Generation& generation,
                            const std::vector<ChoiceDelta>& choices) const = 0;

  // The first chunk of a choice; absent: there is nothing to say yet.
  virtual std::optional<OrderedJson> Begin(const Generation& generation, uint32_t choice) = 0;
  // REQUIRES: a delta that is not empty.
  virtual OrderedJson Delta(uint32_t choice, const ChoiceDelta& delta) = 0;
  virtual OrderedJson End(uint32_t choice, const Choice& ended) const = 0;
  virtual OrderedJson Usage(const UsageTotals& usage) const = 0;
};

}  // namespace hadal::api
