// Which names in a request's `model` mean the one model that is served.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hadal::api {

class ModelNames {
 public:
  // `served`: the names clients may use, the first is the model's own. `aliases`: DeepSeek's names
  // are accepted as well.
  ModelNames(std::vector<std::string> served, bool aliases);

  const std::string& own() const { return served_.front(); }
  // What GET /models lists: the served names, not the aliases.
  const std::vector<std::string>& listed() const { return served_; }

  // Throws ApiError(404, "model_not_found") for any other name; an empty one is the model itself.
  void Check(std::string_view name) const;

  // What a name says about thinking: deepseek-chat forbids it, DeepSeek's other names ask for it.
  static std::optional<bool> Thinking(std::string_view name);

 private:
  std::vector<std::string> served_;
  bool aliases_;
};

// "DeepSeek-V2-Lite" for ".../DeepSeek-V2-Lite/" and ".../DeepSeek-V2-Lite.gguf".
std::string ModelNameOf(const std::string& path);

}  // namespace hadal::api
