// ONE table of every option of every command. The parser, --help and the reference page are
// derived from it.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hadal {

// kUnsigned: 64 bits, no range and no suffix.
enum class OptionType : uint8_t { kFlag, kInteger, kUnsigned, kNumber, kText, kTextList };

struct OptionSpec {
  std::string_view names;  // as CLI11 wants them: "-n,--max-tokens"
  OptionType type;
  std::string_view fallback;  // shown in --help; empty: none
  std::string_view commands;  // separated by spaces
  std::string_view group;     // heading in --help
  std::string_view help;
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::string_view choices = {};  // separated by '|'; empty: free
};

// Sorted by group, then in the order --help shows them.
std::span<const OptionSpec> OptionTable();

// "max-tokens" for "-n,--max-tokens". Unique within a command, not over all.
std::string_view OptionKey(const OptionSpec& option);

// True when `command` takes the option.
bool TakesOption(const OptionSpec& option, std::string_view command);

// What the user gave, completed by the table's fallbacks; already checked against type, range and
// choices.
class OptionValues {
 public:
  explicit OptionValues(std::string command) : command_(std::move(command)) {}

  // Throws Error(kUsage) naming the option and what it accepts.
  void Set(const OptionSpec& option, std::vector<std::string> values);

  // The option of this command with that key or another of its long names; null when there is none.
  const OptionSpec* FindOption(std::string_view key) const;

  bool Given(std::string_view key) const { return values_.count(std::string(key)) != 0; }
  bool Flag(std::string_view key) const { return Given(key); }
  // Value, or the table's fallback. The option must belong to the command (CHECK); asking for a
  // number that was neither given nor has a fallback is an Error(kUsage).
  int64_t Integer(std::string_view key) const;
  double Number(std::string_view key) const;
  std::string Text(std::string_view key) const;
  std::vector<std::string> List(std::string_view key) const;

 private:
  const OptionSpec& Find(std::string_view key) const;

  std::string command_;
  std::map<std::string, std::vector<std::string>> values_;
};

// "32k" is 32768, "1.5" is an error: whole numbers with an optional k, m, g or t (binary) suffix.
// Throws Error(kUsage) naming `what`.
int64_t ParseInteger(std::string_view text, std::string_view what);
uint64_t ParseUnsigned(std::string_view text, std::string_view what);
double ParseNumber(std::string_view text, std::string_view what);
// "1 2,3" -> {1, 2, 3}.
std::vector<int64_t> ParseIntegers(std::string_view text, std::string_view what);

}  // namespace hadal
