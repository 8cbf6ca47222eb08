#include "api/model_names.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "api/api_error.h"
#include "base/check.h"

namespace hadal::api {
namespace {

constexpr std::array<std::string_view, 5> kAliases = {
    "deepseek-chat", "deepseek-reasoner", "deepseek-flash", "deepseek-v4-flash", "deepseek-v4-pro"};

template <typename Names>
bool Contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

ModelNames::ModelNames(std::vector<std::string> served, bool aliases)
    : served_(std::move(served)), aliases_(aliases) {
  HADAL_CHECK(!served_.empty());
}

void ModelNames::Check(std::string_view name) const {
  if (name.empty() || Contains(served_, name)) return;
  if (aliases_ && Contains(kAliases, name)) return;
  throw ApiError(404,
                 fmt::format("The model '{}' does not exist; this server has '{}'", name, own()),
                 "model", "model_not_found");
}

std::optional<bool> ModelNames::Thinking(std::string_view name) {
  if (!Contains(kAliases, name)) return std::nullopt;
  return name != "deepseek-chat";
}

std::string ModelNameOf(const std::string& path) {
  std::filesystem::path file = std::filesystem::path(path).lexically_normal();
  if (!file.has_filename()) file = file.parent_path();
  if (file == "." || file.empty()) file = std::filesystem::absolute(path).parent_path();
  return file.extension() == ".gguf" ? file.stem().string() : file.filename().string();
}

}  // namespace hadal::api
