#include "api/reply_format.h"

namespace hadal::api {

OrderedJson ReplyHead::Json(std::string_view object) const {
  return {{"id", id},
          {"object", object},
          {"created", created},
          {"model", model},
          {"system_fingerprint", system_fingerprint}};
}

}  // namespace hadal::api
