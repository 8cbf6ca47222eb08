#include "http/access_log.h"

#include <cmath>

#include "base/json.h"

namespace hadal {
namespace {

// Milliseconds, to the microsecond.
double Milliseconds(std::chrono::nanoseconds time) {
  return std::round(static_cast<double>(time.count()) / 1e3) / 1e3;
}

}  // namespace

std::string ToJsonLine(const AccessRecord& record) {
  OrderedJson line;
  line["method"] = record.method;
  line["path"] = record.path;
  line["status"] = record.status;
  line["ms"] = Milliseconds(record.total);
  line["first_byte_ms"] = Milliseconds(record.first_byte);
  line["body_bytes"] = record.body_bytes;
  line["sent_bytes"] = record.sent_bytes;
  line["complete"] = record.complete;
  line["request_id"] = record.request_id;
  if (record.key) line["key"] = *record.key;
  line["remote"] = record.remote;
  if (!record.error.empty()) line["error"] = record.error;
  return line.dump(-1, ' ', /*ensure_ascii=*/true, OrderedJson::error_handler_t::replace);
}

}  // namespace hadal
