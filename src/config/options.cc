#include "config/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/error.h"

namespace hadal {
namespace {

std::vector<std::string_view> Split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = std::min(text.find_first_of(separators, pos), text.size());
    if (end > pos) parts.push_back(text.substr(pos, end - pos));
    pos = end + 1;
  }
  return parts;
}

void CheckRange(const OptionSpec& option, double value) {
  if (value >= option.min && value <= option.max) return;
  if (std::isinf(option.max)) {
    Fail(ErrorKind::kUsage, "--{}: {} is too small; the least is {}", OptionKey(option), value,
         option.min);
  }
  Fail(ErrorKind::kUsage, "--{}: {} is outside {} to {}", OptionKey(option), value, option.min,
       option.max);
}

void CheckChoice(const OptionSpec& option, std::string_view value) {
  const auto choices = Split(option.choices, "|");
  if (std::find(choices.begin(), choices.end(), value) == choices.end()) {
    Fail(ErrorKind::kUsage, "--{}: '{}' is not one of {}", OptionKey(option), value,
         option.choices);
  }
}

// By any of its long names.
bool HasName(const OptionSpec& option, std::string_view key) {
  const auto names = Split(option.names, ",");
  return std::any_of(names.begin(), names.end(), [key](std::string_view name) {
    return name.starts_with("--") && name.substr(2) == key;
  });
}

std::string DashedName(const OptionSpec& option) {
  return "--" + std::string(OptionKey(option));
}

}  // namespace

std::string_view OptionKey(const OptionSpec& option) {
  const size_t start = option.names.find("--") + 2;
  return option.names.substr(start, option.names.find(',', start) - start);
}

bool TakesOption(const OptionSpec& option, std::string_view command) {
  const auto commands = Split(option.commands, " ");
  return std::find(commands.begin(), commands.end(), command) != commands.end();
}

void OptionValues::Set(const OptionSpec& option, std::vector<std::string> values) {
  for (const std::string& value : values) {
    if (option.type == OptionType::kInteger) {
      CheckRange(option, static_cast<double>(ParseInteger(value, DashedName(option))));
    } else if (option.type == OptionType::kUnsigned) {
      ParseUnsigned(value, DashedName(option));
    } else if (option.type == OptionType::kNumber) {
      CheckRange(option, ParseNumber(value, DashedName(option)));
    } else if (!option.choices.empty()) {
      CheckChoice(option, value);
    }
  }
  values_[std::string(OptionKey(option))] = std::move(values);
}

const OptionSpec* OptionValues::FindOption(std::string_view key) const {
  for (const OptionSpec& option : OptionTable()) {
    if (HasName(option, key) && TakesOption(option, command_)) return &option;
  }
  return nullptr;
}

const OptionSpec& OptionValues::Find(std::string_view key) const {
  const OptionSpec* option = FindOption(key);
  HADAL_CHECK(option != nullptr);
  return *option;
}

std::string OptionValues::Text(std::string_view key) const {
  if (const auto given = values_.find(std::string(key)); given != values_.end()) {
    return given->second.back();
  }
  return std::string(Find(key).fallback);
}

int64_t OptionValues::Integer(std::string_view key) const {
  return ParseInteger(Text(key), key);
}

double OptionValues::Number(std::string_view key) const {
  return ParseNumber(Text(key), key);
}

std::vector<std::string> OptionValues::List(std::string_view key) const {
  const auto given = values_.find(std::string(key));
  return given == values_.end() ? std::vector<std::string>{} : given->second;
}

int64_t ParseInteger(std::string_view text, std::string_view what) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view suffix(end, static_cast<size_t>(text.data() + text.size() - end));
  int64_t unit = 1;
  if (suffix == "k" || suffix == "K") unit = 1024;
  if (suffix == "m" || suffix == "M") unit = int64_t{1} << 20;
  if (suffix == "g" || suffix == "G") unit = int64_t{1} << 30;
  if (suffix == "t" || suffix == "T") unit = int64_t{1} << 40;
  int64_t scaled = 0;
  if (code != std::errc() || (!suffix.empty() && unit == 1) ||
      __builtin_mul_overflow(value, unit, &scaled)) {
    Fail(ErrorKind::kUsage, "{}: '{}' is not a whole number", what, text);
  }
  return scaled;
}

uint64_t ParseUnsigned(std::string_view text, std::string_view what) {
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) {
    Fail(ErrorKind::kUsage, "{}: '{}' is not a whole number from 0 to 2^64 - 1", what, text);
  }
  return value;
}

double ParseNumber(std::string_view text, std::string_view what) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    Fail(ErrorKind::kUsage, "{}: '{}' is not a number", what, text);
  }
  return value;
}

std::vector<int64_t> ParseIntegers(std::string_view text, std::string_view what) {
  std::vector<int64_t> values;
  for (const std::string_view part : Split(text, " ,\n\t\r[]")) {
    values.push_back(ParseInteger(part, what));
  }
  return values;
}

}  // namespace hadal
