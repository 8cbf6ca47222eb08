// printf-style formatting and str.format.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/utf8.h"
#include "chat/operators.h"
#include "chat/text_ops.h"
#include "chat/value_text.h"

namespace hadal::jinja {
namespace {

constexpr int kMaxWidth = 10'000;

// One format specification, of either kind.
struct Spec {
  std::string fill = " ";
  char align = '\0';  // '<', '>', '^', '='
  char sign = '-';
  bool alternate = false;
  bool zero = false;
  char grouping = '\0';
  int width = 0;
  int precision = -1;
  char type = '\0';
};

int ReadCount(Runtime& runtime, std::string_view text, size_t& pos) {
  int n = 0;
  while (pos < text.size() && text[pos] >= '0' && text[pos] <= '9') {
    n = n * 10 + (text[pos++] - '0');
    if (n > kMaxWidth) runtime.Raise("a format asks for more than {} columns", kMaxWidth);
  }
  return n;
}

std::string GroupDigits(const std::string& digits, char separator) {
  const size_t point = std::min(digits.find_first_of(".e"), digits.size());
  std::string out;
  for (size_t i = 0; i < point; ++i) {
    if (i != 0 && (point - i) % 3 == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(point);
}

// The digits of a number without sign.
std::string NumberDigits(Runtime& runtime, const Value& value, const Spec& spec) {
  const char type = spec.type;
  const bool as_float =
      value.Is(Type::kFloat)
          ? type != 'd' && type != 'x' && type != 'X' && type != 'o' && type != 'b'
          : std::string_view("fFeEgG%").find(type) != std::string_view::npos;
  if (!as_float) {
    if (value.Is(Type::kFloat)) runtime.Raise("Unknown format code '{}' for a float", type);
    const uint64_t bits = static_cast<uint64_t>(value.integer);
    const uint64_t magnitude = value.integer < 0 ? 0 - bits : bits;
    switch (type) {
      case 'x':
        return (spec.alternate ? "0x" : "") + fmt::format("{:x}", magnitude);
      case 'X':
        return (spec.alternate ? "0X" : "") + fmt::format("{:X}", magnitude);
      case 'o':
        return (spec.alternate ? "0o" : "") + fmt::format("{:o}", magnitude);
      case 'b':
        return (spec.alternate ? "0b" : "") + fmt::format("{:b}", magnitude);
      default:
        return fmt::format("{}", magnitude);
    }
  }
  double magnitude = std::fabs(value.AsDouble());
  if (!std::isfinite(magnitude)) return std::isnan(magnitude) ? "nan" : "inf";
  const int precision = spec.precision < 0 ? 6 : std::min(spec.precision, 1000);
  switch (type) {
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", magnitude, precision);
    case 'e':
      return fmt::format("{:.{}e}", magnitude, precision);
    case 'E':
      return fmt::format("{:.{}E}", magnitude, precision);
    case 'G':
      return fmt::format("{:.{}G}", magnitude, std::max(precision, 1));
    case '%':
      return fmt::format("{:.{}f}%", magnitude * 100, precision);
    case 'g':
      return fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
    default:
      if (spec.precision < 0) return FloatText(magnitude);
      return fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
  }
}

void AppendPadded(const MarkedText& sign, const MarkedText& body, const Spec& spec, bool data,
                  TextBuilder& out) {
  const size_t length = CountCodePoints(sign.text) + CountCodePoints(body.text);
  const auto width = static_cast<size_t>(spec.width);
  const size_t missing = width > length ? width - length : 0;
  const size_t left = spec.align == '<' || spec.align == '=' ? 0
                      : spec.align == '^'                    ? missing / 2
                                                             : missing;
  out.Repeat(spec.fill, left, data);
  out.Append(sign);
  if (spec.align == '=') out.Repeat(spec.fill, missing, data);
  out.Append(body);
  if (spec.align != '=') out.Repeat(spec.fill, missing - left, data);
}

void AppendNumber(Runtime& runtime, const Value& value, Spec spec, TextBuilder& out) {
  if (spec.zero && spec.align == '\0') {
    spec.fill = "0";
    spec.align = '=';
  }
  if (spec.align == '\0') spec.align = '>';
  const bool negative = value.Is(Type::kFloat) ? std::signbit(value.real) && !std::isnan(value.real)
                                               : value.integer < 0;
  std::string digits = NumberDigits(runtime, value, spec);
  if (spec.grouping != '\0') digits = GroupDigits(digits, spec.grouping);
  MarkedText sign;
  MarkedText body;
  if (negative || spec.sign != '-') {
    sign.Append(negative ? "-" : spec.sign == '+' ? "+" : " ", value.data);
  }
  body.Append(digits, value.data);
  AppendPadded(sign, body, spec, value.data, out);
}

void AppendString(Runtime& runtime, const Value& text, Spec spec, TextBuilder& out) {
  if (spec.align == '\0') spec.align = '<';
  MarkedText body;
  if (spec.precision >= 0) {
    const SliceBounds bounds{Value::None(), Value::Int(spec.precision), Value::None()};
    body = *GetSlice(runtime, text, bounds).string;
  } else {
    runtime.Memory(text.string->size());
    body = *text.string;
  }
  AppendPadded({}, body, spec, CarriesData(text), out);
}

Value ReprValue(Runtime& runtime, const Value& value) {
  return runtime.NewString(Repr(runtime, value), CarriesData(value));
}

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const MarkedText& format, const Value& values)
      : runtime_(runtime), format_(format), values_(values), out_(runtime) {}

  Value Run() {
    const std::string& text = format_.text;
    size_t pos = 0;
    while (true) {
      const size_t percent = std::min(text.find('%', pos), text.size());
      out_.Append(format_, pos, percent);
      if (percent == text.size()) break;
      pos = Field(percent + 1);
    }
    const bool all_used = !values_.Is(Type::kTuple) || next_ >= values_.list->items.size();
    if (!all_used || (!values_.Is(Type::kTuple) && !values_.IsDict() && next_ == 0)) {
      runtime_.Raise("not all arguments converted during string formatting");
    }
    return out_.Finish();
  }

 private:
  Value NextValue() {
    const size_t i = next_++;
    if (values_.Is(Type::kTuple)) {
      if (i < values_.list->items.size()) return values_.list->items[i];
    } else if (i == 0) {
      return values_;
    }
    runtime_.Raise("not enough arguments for format string");
  }

  // The field whose '%' stands before `pos`; returns the position behind it.
  size_t Field(size_t pos) {
    const std::string& text = format_.text;
    Spec spec;
    std::optional<Value> named;
    if (pos < text.size() && text[pos] == '(') {
      const size_t close = text.find(')', pos);
      if (close == std::string::npos) runtime_.Raise("incomplete format key");
      if (!values_.IsDict()) runtime_.Raise("format requires a mapping");
      const Value* found = values_.dict->Find(text.substr(pos + 1, close - pos - 1));
      if (found == nullptr) runtime_.Raise("the format names an unknown key");
      named = *found;
      pos = close + 1;
    }
    for (; pos < text.size() && std::string_view("-+ #0").find(text[pos]) != std::string::npos;
         ++pos) {
      const char c = text[pos];
      if (c == '-') spec.align = '<';
      if (c == '+') spec.sign = '+';
      if (c == ' ' && spec.sign != '+') spec.sign = ' ';
      if (c == '#') spec.alternate = true;
      if (c == '0') spec.zero = true;
    }
    spec.width = ReadCount(runtime_, text, pos);
    if (pos < text.size() && text[pos] == '.') {
      ++pos;
      spec.precision = ReadCount(runtime_, text, pos);
    }
    if (pos >= text.size()) runtime_.Raise("incomplete format");
    spec.type = text[pos];
    if (spec.type == '%') {
      out_.Append(format_, pos, pos + 1);
    } else {
      Convert(named.has_value() ? *named : NextValue(), spec);
    }
    return pos + 1;
  }

  Value Character(const Value& value) {
    if (value.IsString() && CountCodePoints(value.Text()) == 1) return value;
    const bool valid = value.IsInteger() && value.integer >= 0 && value.integer <= 0x10FFFF &&
                       (value.integer < 0xD800 || value.integer > 0xDFFF);
    if (!valid) runtime_.Raise("%c requires int or char");
    std::string text;
    AppendUtf8(static_cast<char32_t>(value.integer), text);
    return runtime_.NewString(text, value.data);
  }

  void Convert(const Value& value, Spec& spec) {
    if (spec.type == 'c') {
      if (spec.align == '\0') spec.align = '>';
      AppendString(runtime_, Character(value), spec, out_);
      return;
    }
    if (spec.type == 's' || spec.type == 'r') {
      const Value text = spec.type == 's' ? ToText(runtime_, value) : ReprValue(runtime_, value);
      if (spec.align == '\0') spec.align = '>';
      AppendString(runtime_, text, spec, out_);
      return;
    }
    if (spec.type == 'i' || spec.type == 'u') spec.type = 'd';
    if (std::string_view("dxXofFeEgG").find(spec.type) == std::string_view::npos) {
      runtime_.Raise("unsupported format character '{}'", spec.type);
    }
    if (!value.IsNumber()) {
      runtime_.Raise("%{} format: a number is required, not {}", spec.type, TypeName(value));
    }
    Value number = value;
    if (spec.type == 'd' && value.Is(Type::kFloat)) {
      if (!(std::fabs(value.real) < 9.2e18)) runtime_.Raise("cannot convert float to integer");
      number = Value::Int(static_cast<int64_t>(value.real), value.data);
    }
    AppendNumber(runtime_, number, spec, out_);
  }

  Runtime& runtime_;
  const MarkedText& format_;
  const Value& values_;
  TextBuilder out_;
  size_t next_ = 0;
};

Spec ParseBraceSpec(Runtime& runtime, std::string_view text) {
  Spec spec;
  size_t pos = 0;
  const auto is_align = [&](size_t at) {
    return at < text.size() && std::string_view("<>^=").find(text[at]) != std::string_view::npos;
  };
  if (!text.empty()) {
    const size_t fill = DecodeUtf8(text, 0).size;
    if (is_align(fill)) {
      spec.fill = text.substr(0, fill);
      spec.align = text[fill];
      pos = fill + 1;
    } else if (is_align(0)) {
      spec.align = text[pos++];
    }
  }
  const auto take = [&](std::string_view any) {
    return pos < text.size() && any.find(text[pos]) != std::string_view::npos ? text[pos++] : '\0';
  };
  if (const char sign = take("+- "); sign != '\0') spec.sign = sign;
  spec.alternate = take("#") != '\0';
  spec.zero = take("0") != '\0';
  spec.width = ReadCount(runtime, text, pos);
  spec.grouping = take(",_");
  if (take(".") != '\0') spec.precision = ReadCount(runtime, text, pos);
  spec.type = take("sdfFeEgGxXob%n");
  if (pos != text.size()) runtime.Raise("invalid format specification '{}'", text);
  return spec;
}

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const MarkedText& format, const Args& args)
      : runtime_(runtime), format_(format), args_(args), out_(runtime) {}

  Value Run() {
    const std::string& text = format_.text;
    size_t pos = 0;
    while (pos < text.size()) {
      const size_t brace = std::min(text.find_first_of("{}", pos), text.size());
      out_.Append(format_, pos, brace);
      pos = brace;
      if (pos == text.size()) break;
      if (pos + 1 < text.size() && text[pos + 1] == text[pos]) {
        out_.Append(format_, pos, pos + 1);
        pos += 2;
      } else if (text[pos] == '}') {
        runtime_.Raise("single '}}' encountered in format string");
      } else {
        const size_t close = text.find('}', pos);
        if (close == std::string::npos) runtime_.Raise("expected '}}' before end of string");
        Field(std::string_view(text).substr(pos + 1, close - pos - 1));
        pos = close + 1;
      }
    }
    return out_.Finish();
  }

 private:
  void Field(std::string_view field) {
    if (field.find('{') != std::string_view::npos) {
      runtime_.Raise("nested fields in a format are not supported");
    }
    const size_t colon = std::min(field.find(':'), field.size());
    std::string_view name = field.substr(0, colon);
    const std::string_view spec_text = colon < field.size() ? field.substr(colon + 1) : "";
    char conversion = '\0';
    if (const size_t bang = name.find('!'); bang != std::string_view::npos) {
      if (bang + 2 != name.size()) runtime_.Raise("a broken conversion in a format");
      conversion = name[bang + 1];
      name = name.substr(0, bang);
    }
    Value value = Lookup(name);
    if (conversion == 'r') value = ReprValue(runtime_, value);
    if (conversion == 's') value = ToText(runtime_, value);
    const Spec spec = ParseBraceSpec(runtime_, spec_text);
    if (value.IsNumber() && !(value.Is(Type::kBool) && spec.type == '\0')) {
      if (spec.type == 's') runtime_.Raise("format code 's' does not fit a number");
      AppendNumber(runtime_, value, spec, out_);
    } else {
      if (spec.type != '\0' && spec.type != 's') {
        runtime_.Raise("format code '{}' does not fit {}", spec.type, TypeName(value));
      }
      AppendString(runtime_, ToText(runtime_, value), spec, out_);
    }
  }

  Value Lookup(std::string_view name) {
    const size_t head = std::min(name.find_first_of(".["), name.size());
    Value value = Argument(name.substr(0, head));
    for (size_t pos = head; pos < name.size();) {
      if (name[pos] == '.') {
        const size_t end = std::min(name.find_first_of(".[", pos + 1), name.size());
        value = GetAttribute(runtime_, value, name.substr(pos + 1, end - pos - 1));
        pos = end;
      } else {
        const size_t end = name.find(']', pos);
        if (end == std::string_view::npos) runtime_.Raise("missing ']' in format string");
        value = GetItem(runtime_, value, Key(name.substr(pos + 1, end - pos - 1)));
        pos = end + 1;
      }
    }
    if (value.IsUndefined()) RaiseUndefined(runtime_, value);
    return value;
  }

  Value Key(std::string_view text) {
    int64_t index = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
    const bool number = error == std::errc() && end == text.data() + text.size();
    return number ? Value::Int(index) : runtime_.NewString(text, true);
  }

  Value Argument(std::string_view name) {
    size_t index = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool number = error == std::errc() && end == name.data() + name.size();
    if (name.empty() || number) {
      if (name.empty()) index = next_++;
      if (index < args_.positional.size()) return args_.positional[index];
      runtime_.Raise("Replacement index {} out of range for positional args tuple", index);
    }
    for (const auto& [key, value] : args_.named) {
      if (key == name) return value;
    }
    runtime_.Raise("the format names an unknown argument '{}'", name);
  }

  Runtime& runtime_;
  const MarkedText& format_;
  const Args& args_;
  TextBuilder out_;
  size_t next_ = 0;
};

}  // namespace

Value PercentFormat(Runtime& runtime, const MarkedText& format, const Value& values) {
  return PercentFormatter(runtime, format, values).Run();
}

Value BraceFormat(Runtime& runtime, const MarkedText& format, const Args& args) {
  return BraceFormatter(runtime, format, args).Run();
}

}  // namespace hadal::jinja
