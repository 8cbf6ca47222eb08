#include "api/reply_format.h"

#include <utility>

namespace hadal::api {

OrderedJson ReplyHead::Json(std::string_view object) const {
  return {{"id", id},
          {"object", object},
          {"created", created},
          {"model", model},
          {"system_fingerprint", system_fingerprint}};
}

OrderedJson ReplyHead::Chunk(std::string_view object, OrderedJson choice, bool with_usage) const {
  OrderedJson chunk = Json(object);
  chunk["choices"] = OrderedJson::array();
  if (!choice.is_null()) chunk["choices"].push_back(std::move(choice));
  if (with_usage) chunk["usage"] = nullptr;
  return chunk;
}

}  // namespace hadal::api
