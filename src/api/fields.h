// Reading the members of a request body: each by its type and range, none overlooked.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace hadal::api {

// One JSON object of a request. A member that is null counts as absent. Every reader throws
// ApiError(400) that names the member in `param`.
class Fields {
 public:
  // `path` stands before the members' names: "" or "stream_options.". Throws unless `object` is
  // one. The object must outlive the reader.
  Fields(const OrderedJson& object, std::string path);

  // Null when absent.
  const OrderedJson* Find(std::string_view key);
  bool Has(std::string_view key) { return Find(key) != nullptr; }

  std::optional<bool> Bool(std::string_view key);
  std::optional<double> Number(std::string_view key, double min, double max);
  // 3.0 is an integer, 3.5 is not.
  std::optional<int64_t> Integer(std::string_view key, int64_t min, int64_t max);
  std::optional<std::string> String(std::string_view key);
  // One string or a list of them.
  std::optional<std::vector<std::string>> Strings(std::string_view key, size_t max_count);

  [[noreturn]] void Refuse(std::string_view key, const std::string& what,
                           std::string_view code = "invalid_value") const;

  // Members that nothing has asked for, with their path.
  std::vector<std::string> Unread() const;

 private:
  [[noreturn]] void WrongType(std::string_view key, const OrderedJson& value,
                              std::string_view expected) const;

  const OrderedJson& object_;
  std::string path_;
  std::set<std::string, std::less<>> read_;
};

// A list of token ids, integers in [0, vocab). Throws ApiError(400).
std::vector<int32_t> TokenIdsOf(const OrderedJson& value, uint32_t vocab, const std::string& where);

}  // namespace hadal::api
