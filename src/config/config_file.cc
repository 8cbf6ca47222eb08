#include "config/config_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "base/error.h"
#include "base/mapped_file.h"

namespace hadal {
namespace {

constexpr size_t kMaxConfigBytes = size_t{1} << 20;

[[noreturn]] void Refuse(const std::filesystem::path& path, const YAML::Mark& mark,
                         const std::string& what) {
  Fail(ErrorKind::kUsage, "{}, line {}: {}", path.string(), mark.line + 1, what);
}

YAML::Node Parse(const std::filesystem::path& path) {
  const std::string text = ReadTextFile(path, kMaxConfigBytes);
  try {
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    Refuse(path, error.mark, error.msg);
  }
}

std::vector<std::string> ValuesOf(const std::filesystem::path& path, const std::string& key,
                                  const YAML::Node& node, bool repeatable) {
  if (node.IsScalar()) return {node.Scalar()};
  if (!node.IsSequence() || !repeatable) {
    Refuse(path, node.Mark(), key + (repeatable ? " takes a value or a list" : " takes one value"));
  }
  std::vector<std::string> values;
  for (const YAML::Node& entry : node) {
    if (!entry.IsScalar()) Refuse(path, entry.Mark(), key + " takes a list of values");
    values.push_back(entry.Scalar());
  }
  return values;
}

void Apply(const std::filesystem::path& path, const YAML::Node& name, const YAML::Node& value,
           OptionValues& values) {
  if (!name.IsScalar()) Refuse(path, name.Mark(), "a name is expected");
  std::string key = name.Scalar();
  std::replace(key.begin(), key.end(), '_', '-');
  const OptionSpec* option = values.FindOption(key);
  if (option == nullptr || key == "config") {
    Refuse(path, name.Mark(), "there is no option '" + name.Scalar() + "'");
  }
  if (values.Given(OptionKey(*option))) return;
  if (option->type == OptionType::kFlag) {
    bool set = false;
    if (!value.IsScalar() || !YAML::convert<bool>::decode(value, set)) {
      Refuse(path, value.Mark(), key + " is true or false");
    }
    if (set) values.Set(*option, {});
    return;
  }
  std::vector<std::string> given =
      ValuesOf(path, key, value, option->type == OptionType::kTextList);
  WithContext(fmt::format("{}, line {}", path.string(), value.Mark().line + 1),
              [&] { values.Set(*option, std::move(given)); });
}

}  // namespace

void ApplyConfigFile(const std::filesystem::path& path, OptionValues& values) {
  const YAML::Node root = Parse(path);
  if (root.IsNull()) return;
  if (!root.IsMap()) Refuse(path, root.Mark(), "options are expected, one 'name: value' a line");
  for (const auto& entry : root) Apply(path, entry.first, entry.second, values);
}

}  // namespace hadal
