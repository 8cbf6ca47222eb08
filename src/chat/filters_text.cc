// Filters that make text or numbers.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/utf8.h"
#include "chat/filters.h"
#include "chat/methods.h"
#include "chat/operators.h"
#include "chat/text_ops.h"
#include "chat/value_json.h"
#include "chat/value_text.h"

namespace hadal::jinja {
namespace {

Value CallMethod(Runtime& runtime, std::string_view name, const Value& input, const Args& args) {
  return FindStringMethod(name)->body(runtime, ToText(runtime, input), args);
}

Value Trim(Runtime& r, const Value& in, const Args& a) {
  return CallMethod(r, "strip", in, a);
}

template <CaseOp kOp>
Value Case(Runtime& runtime, const Value& input, const Args& args) {
  BindArgs(runtime, "a case filter", args, {});
  return ChangeCase(runtime, *ToText(runtime, input).string, kOp);
}

Value Replace(Runtime& runtime, const Value& input, const Args& args) {
  const auto bound = BindArgs(runtime, "replace", args, {"old", "new", "count"}, 2);
  const Value text = ToText(runtime, input);
  const Value from = ToText(runtime, *bound[0]);
  const Value to = ToText(runtime, *bound[1]);
  const int64_t limit =
      bound[2] == nullptr || bound[2]->IsNone() ? -1 : ToInteger(runtime, *bound[2], "the count");
  return ReplaceText(runtime, *text.string, from.Text(), *to.string, limit);
}

Value String(Runtime& runtime, const Value& input, const Args&) {
  return ToText(runtime, input);
}

Value Safe(Runtime& runtime, const Value& input, const Args&) {
  Value text = ToText(runtime, input);
  text.safe = true;
  return text;
}

Value Escape(Runtime& runtime, const Value& input, const Args&) {
  if (input.IsString() && input.safe) return input;
  return EscapeHtml(runtime, *ToText(runtime, input).string);
}

Value ForceEscape(Runtime& runtime, const Value& input, const Args&) {
  return EscapeHtml(runtime, *ToText(runtime, input).string);
}

Value Format(Runtime& runtime, const Value& input, const Args& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    runtime.Raise("can't handle positional and keyword arguments at the same time");
  }
  const Value text = ToText(runtime, input);
  if (args.named.empty()) {
    return PercentFormat(runtime, *text.string, runtime.NewList(args.positional, Type::kTuple));
  }
  const Value named = runtime.NewDict();
  for (const auto& [name, value] : args.named) {
    runtime.SetItem(*named.dict, runtime.NewString(name, false), value);
  }
  return PercentFormat(runtime, *text.string, named);
}

Value Indent(Runtime& runtime, const Value& input, const Args& args) {
  const auto bound = BindArgs(runtime, "indent", args, {"width", "first", "blank"});
  const Value text = ToText(runtime, input);
  TextBuilder pad(runtime);
  if (bound[0] != nullptr && bound[0]->IsString()) {
    pad.Append(*bound[0]->string);
  } else {
    const int64_t width = bound[0] == nullptr ? 4 : ToInteger(runtime, *bound[0], "the width");
    pad.Repeat(" ", static_cast<size_t>(std::max<int64_t>(width, 0)),
               bound[0] != nullptr && bound[0]->data);
  }
  const MarkedText indent = pad.Take();
  const bool first = bound[1] != nullptr && Truthy(*bound[1]);
  const bool blank = bound[2] != nullptr && Truthy(*bound[2]);
  const MarkedText& source = *text.string;
  TextBuilder out(runtime);
  // Lines end at '\n' here; the other line ends of str.splitlines come out as '\n', as in Jinja.
  std::vector<ByteRange> lines = SplitLines(runtime, source.text, false);
  if (source.empty() || source.text.back() == '\n') lines.push_back({source.size(), source.size()});
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i != 0) out.Append("\n", source.IsData(std::min(lines[i].begin, source.size()) - 1));
    const bool wanted = i == 0 ? first : blank || lines[i].begin != lines[i].end;
    if (wanted) out.Append(indent);
    out.Append(source, lines[i].begin, lines[i].end);
  }
  return out.Finish();
}

Value Center(Runtime& runtime, const Value& input, const Args& args) {
  const auto bound = BindArgs(runtime, "center", args, {"width"});
  Args width;
  width.positional.push_back(bound[0] == nullptr ? Value::Int(80) : *bound[0]);
  return CallMethod(runtime, "center", input, width);
}

Value Truncate(Runtime& runtime, const Value& input, const Args& args) {
  const auto bound = BindArgs(runtime, "truncate", args, {"length", "killwords", "end", "leeway"});
  const Value text = ToText(runtime, input);
  const int64_t length = bound[0] == nullptr ? 255 : ToInteger(runtime, *bound[0], "the length");
  const int64_t leeway = bound[3] == nullptr ? 5 : ToInteger(runtime, *bound[3], "the leeway");
  const Value end =
      bound[2] == nullptr ? runtime.NewString("...", false) : ToText(runtime, *bound[2]);
  const auto size = static_cast<int64_t>(CountCodePoints(text.Text()));
  const auto end_size = static_cast<int64_t>(CountCodePoints(end.Text()));
  if (length < end_size) runtime.Raise("truncate: the length is shorter than its end");
  if (leeway < 0) runtime.Raise("truncate: the leeway is negative");
  if (size - leeway <= length) return text;
  const SliceBounds bounds{Value::None(), Value::Int(length - end_size), Value::None()};
  Value cut = GetSlice(runtime, text, bounds);
  if (bound[1] == nullptr || !Truthy(*bound[1])) {
    const size_t space = cut.Text().rfind(' ');
    if (space != std::string_view::npos) cut = runtime.NewSubstring(*cut.string, 0, space);
  }
  return Arithmetic(runtime, Op::kAdd, cut, end);
}

Value Wordcount(Runtime& runtime, const Value& input, const Args&) {
  const Value text = ToText(runtime, input);
  int64_t words = 0;
  bool inside = false;
  for (size_t pos = 0; pos < text.string->size();) {
    const Utf8Char c = DecodeUtf8(text.Text(), pos);
    const bool word = IsAlpha(c.code) || IsDigit(c.code) || c.code == '_';
    words += word && !inside ? 1 : 0;
    inside = word;
    pos += c.size;
  }
  return Value::Int(words, true);
}

// Digits with optional sign and blanks around, as int() reads them.
bool ParseInteger(std::string_view text, int base, int64_t& out) {
  const ByteRange range = StripRange(text, nullptr, {true, true});
  std::string digits(text.substr(range.begin, range.end - range.begin));
  const bool negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.erase(0, 1);
  if (digits.size() > 2 && digits[0] == '0') {
    const char c = digits[1];
    const bool prefixed = (base == 16 && (c == 'x' || c == 'X')) ||
                          (base == 8 && (c == 'o' || c == 'O')) ||
                          (base == 2 && (c == 'b' || c == 'B'));
    if (prefixed) digits.erase(0, 2);
  }
  if (digits.empty() || digits.front() == '_' || digits.back() == '_') return false;
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  if (digits[0] == '-' || digits[0] == '+') return false;
  if (negative) digits.insert(0, 1, '-');
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), out, base);
  return error == std::errc() && end == digits.data() + digits.size();
}

bool ParseFloat(std::string_view text, double& out) {
  const ByteRange range = StripRange(text, nullptr, {true, true});
  const std::string digits(text.substr(range.begin, range.end - range.begin));
  if (digits.empty() || digits.find_first_of("xXpP(") != std::string::npos) return false;
  char* end = nullptr;
  out = std::strtod(digits.c_str(), &end);
  return end == digits.c_str() + digits.size();
}

Value Int(Runtime& runtime, const Value& input, const Args& args) {
  const auto bound = BindArgs(runtime, "int", args, {"default", "base"});
  const Value fallback = bound[0] == nullptr ? Value::Int(0) : *bound[0];
  const int64_t base = bound[1] == nullptr ? 10 : ToInteger(runtime, *bound[1], "the base");
  if (base < 2 || base > 36) runtime.Raise("int() base must be from 2 to 36");
  if (input.IsUndefined()) RaiseUndefined(runtime, input);
  if (input.IsInteger()) return Value::Int(input.integer, input.data);
  double number = 0;
  bool parsed = input.Is(Type::kFloat);
  if (parsed) {
    number = input.real;
  } else if (input.IsString()) {
    int64_t integer = 0;
    const bool data = CarriesData(input);
    if (ParseInteger(input.Text(), static_cast<int>(base), integer))
      return Value::Int(integer, data);
    parsed = ParseFloat(input.Text(), number);
  }
  if (!parsed || !std::isfinite(number)) return fallback;
  if (!(std::fabs(number) < 9.2e18)) runtime.Raise("an integer does not fit into 64 bits");
  return Value::Int(static_cast<int64_t>(number), CarriesData(input));
}

Value Float(Runtime& runtime, const Value& input, const Args& args) {
  const auto bound = BindArgs(runtime, "float", args, {"default"});
  if (input.IsUndefined()) RaiseUndefined(runtime, input);
  if (input.IsNumber()) return Value::Float(input.AsDouble(), input.data);
  double number = 0;
  if (input.IsString() && ParseFloat(input.Text(), number)) {
    return Value::Float(number, CarriesData(input));
  }
  return bound[0] == nullptr ? Value::Float(0) : *bound[0];
}

Value Abs(Runtime& runtime, const Value& input, const Args&) {
  if (input.IsUndefined()) RaiseUndefined(runtime, input);
  if (!input.IsNumber()) runtime.Raise("bad operand type for abs(): '{}'", TypeName(input));
  const bool negative = input.Is(Type::kFloat) ? std::signbit(input.real) : input.integer < 0;
  if (negative) return Negative(runtime, input);
  return input.Is(Type::kBool) ? Value::Int(input.integer, input.data) : input;
}

Value Round(Runtime& runtime, const Value& input, const Args& args) {
  const auto bound = BindArgs(runtime, "round", args, {"precision", "method"});
  if (input.IsUndefined()) RaiseUndefined(runtime, input);
  if (!input.IsNumber()) runtime.Raise("type {} cannot be rounded", TypeName(input));
  const int64_t precision =
      bound[0] == nullptr ? 0 : ToInteger(runtime, *bound[0], "the precision");
  const std::string_view method =
      bound[1] != nullptr && bound[1]->IsString() ? bound[1]->Text() : "common";
  if (method == "common" && input.IsInteger() && precision >= 0) {
    return Value::Int(input.integer, input.data);
  }
  if (precision > 300 || precision < -300) return input;
  const double number = input.AsDouble();
  if (method == "common") {
    if (precision >= 0) {  // as decimal text, so that 2.675 is what it prints as
      const std::string text = fmt::format("{:.{}f}", number, precision);
      return Value::Float(std::strtod(text.c_str(), nullptr), input.data);
    }
    const double scale = std::pow(10.0, static_cast<double>(-precision));
    const double rounded = std::nearbyint(number / scale) * scale;
    if (input.Is(Type::kFloat)) return Value::Float(rounded, input.data);
    if (!(std::fabs(rounded) < 9.2e18)) runtime.Raise("an integer does not fit into 64 bits");
    return Value::Int(static_cast<int64_t>(rounded), input.data);
  }
  if (method != "ceil" && method != "floor") {
    runtime.Raise("method must be common, ceil or floor");
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = number * scale;
  return Value::Float((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale,
                      input.data);
}

Value Tojson(Runtime& runtime, const Value& input, const Args& args) {
  const auto bound =
      BindArgs(runtime, "tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound[0] != nullptr && Truthy(*bound[0]);
  style.sort_keys = bound[3] != nullptr && Truthy(*bound[3]);
  if (bound[1] != nullptr && !bound[1]->IsNone()) {
    if (bound[1]->IsString()) {
      style.indent = bound[1]->string->text;
    } else {
      const int64_t width = ToInteger(runtime, *bound[1], "the indent");
      if (width > 1000) runtime.Raise("an indent of {} is too much", width);
      style.indent = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
    style.item_separator = ",";
  }
  if (bound[2] != nullptr && !bound[2]->IsNone()) {
    const List& separators = ItemList(runtime, *bound[2]);
    if (separators.items.size() != 2 || !separators.items[0].IsString() ||
        !separators.items[1].IsString()) {
      runtime.Raise("tojson: separators must be a pair of strings");
    }
    style.item_separator = separators.items[0].Text();
    style.key_separator = separators.items[1].Text();
  }
  return ToJson(runtime, input, style);
}

Value FromJsonFilter(Runtime& runtime, const Value& input, const Args&) {
  if (!input.IsString()) runtime.Raise("from_json needs a string, not {}", TypeName(input));
  return ParseJsonText(runtime, input.Text());
}

struct Entry {
  std::string_view name;
  FilterBody body;
};

constexpr auto kFilters = std::to_array<Entry>({
    {"abs", Abs},
    {"capitalize", Case<CaseOp::kCapitalize>},
    {"center", Center},
    {"e", Escape},
    {"escape", Escape},
    {"float", Float},
    {"forceescape", ForceEscape},
    {"format", Format},
    {"from_json", FromJsonFilter},
    {"indent", Indent},
    {"int", Int},
    {"lower", Case<CaseOp::kLower>},
    {"replace", Replace},
    {"round", Round},
    {"safe", Safe},
    {"string", String},
    {"title", Case<CaseOp::kTitleFilter>},
    {"tojson", Tojson},
    {"trim", Trim},
    {"truncate", Truncate},
    {"upper", Case<CaseOp::kUpper>},
    {"wordcount", Wordcount},
});

}  // namespace

FilterBody FindTextFilter(std::string_view name) {
  const auto found = std::find_if(kFilters.begin(), kFilters.end(),
                                  [&](const Entry& entry) { return entry.name == name; });
  return found == kFilters.end() ? nullptr : found->body;
}

}  // namespace hadal::jinja
