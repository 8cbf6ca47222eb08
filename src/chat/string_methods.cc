#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "chat/methods.h"
#include "chat/operators.h"
#include "chat/text_ops.h"
#include "chat/value_text.h"

namespace hadal::jinja {
namespace {

std::string_view TextArg(Runtime& runtime, const Value& value) {
  if (!value.IsString()) {
    if (value.IsUndefined()) RaiseUndefined(runtime, value);
    runtime.Raise("a string is expected, not {}", TypeName(value));
  }
  return value.Text();
}

int64_t LimitArg(Runtime& runtime, const Value* value) {
  return value == nullptr ? -1 : ToInteger(runtime, *value, "the limit");
}

Value Strip(Runtime& runtime, const Value& self, const Args& args, StripSides sides,
            std::string_view name) {
  const auto bound = BindArgs(runtime, name, args, {"chars"});
  ByteRange range;
  if (bound[0] != nullptr && !bound[0]->IsNone()) {
    const std::string_view chars = TextArg(runtime, *bound[0]);
    // Each character may be compared with each of `chars`.
    runtime.Work(1 + self.string->size() / 16 * (1 + chars.size() / 16) + chars.size());
    range = StripRange(self.Text(), &chars, sides);
  } else {
    range = StripRange(self.Text(), nullptr, sides);
  }
  return runtime.NewSubstring(*self.string, range.begin, range.end);
}

Value StripMethod(Runtime& r, const Value& s, const Args& a) {
  return Strip(r, s, a, {true, true}, "strip");
}
Value LstripMethod(Runtime& r, const Value& s, const Args& a) {
  return Strip(r, s, a, {true, false}, "lstrip");
}
Value RstripMethod(Runtime& r, const Value& s, const Args& a) {
  return Strip(r, s, a, {false, true}, "rstrip");
}

Value Pieces(Runtime& runtime, const Value& self, const std::vector<ByteRange>& ranges) {
  std::vector<Value> pieces;
  for (const ByteRange& range : ranges) {
    pieces.push_back(runtime.NewSubstring(*self.string, range.begin, range.end));
  }
  return runtime.NewList(std::move(pieces));
}

Value Split(Runtime& runtime, const Value& self, const Args& args, bool from_right) {
  const auto bound = BindArgs(runtime, "split", args, {"sep", "maxsplit"});
  const int64_t limit = LimitArg(runtime, bound[1]);
  if (bound[0] == nullptr || bound[0]->IsNone()) {
    return Pieces(runtime, self, SplitRanges(runtime, self.Text(), nullptr, limit, from_right));
  }
  const std::string_view separator = TextArg(runtime, *bound[0]);
  if (separator.empty()) runtime.Raise("empty separator");
  return Pieces(runtime, self, SplitRanges(runtime, self.Text(), &separator, limit, from_right));
}

Value SplitMethod(Runtime& r, const Value& s, const Args& a) {
  return Split(r, s, a, false);
}
Value RsplitMethod(Runtime& r, const Value& s, const Args& a) {
  return Split(r, s, a, true);
}

Value Partition(Runtime& runtime, const Value& self, const Args& args, bool from_right) {
  const auto bound = BindArgs(runtime, "partition", args, {"sep"}, 1);
  const std::string_view separator = TextArg(runtime, *bound[0]);
  if (separator.empty()) runtime.Raise("empty separator");
  runtime.Work(1 + self.string->size() / 16);
  const size_t hit = from_right ? self.Text().rfind(separator) : self.Text().find(separator);
  const size_t size = self.string->size();
  std::vector<ByteRange> ranges;
  if (hit == std::string_view::npos) {
    ranges = from_right ? std::vector<ByteRange>{{0, 0}, {0, 0}, {0, size}}
                        : std::vector<ByteRange>{{0, size}, {size, size}, {size, size}};
  } else {
    ranges = {{0, hit}, {hit, hit + separator.size()}, {hit + separator.size(), size}};
  }
  Value pieces = Pieces(runtime, self, ranges);
  pieces.type = Type::kTuple;
  return pieces;
}

Value PartitionMethod(Runtime& r, const Value& s, const Args& a) {
  return Partition(r, s, a, false);
}
Value RpartitionMethod(Runtime& r, const Value& s, const Args& a) {
  return Partition(r, s, a, true);
}

Value SplitlinesMethod(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = BindArgs(runtime, "splitlines", args, {"keepends"});
  const bool keep = bound[0] != nullptr && Truthy(*bound[0]);
  return Pieces(runtime, self, SplitLines(runtime, self.Text(), keep));
}

// startswith and endswith take one string or a tuple of them.
Value Affix(Runtime& runtime, const Value& self, const Args& args, bool at_start) {
  const auto bound = BindArgs(runtime, at_start ? "startswith" : "endswith", args, {"prefix"}, 1);
  const auto matches = [&](const Value& affix) {
    const std::string_view text = TextArg(runtime, affix);
    runtime.Work(1 + text.size() / 16);
    return at_start ? self.Text().substr(0, text.size()) == text
                    : self.string->size() >= text.size() &&
                          self.Text().substr(self.string->size() - text.size()) == text;
  };
  if (!bound[0]->Is(Type::kTuple)) return Value::Bool(matches(*bound[0]), true);
  const std::vector<Value>& affixes = bound[0]->list->items;
  return Value::Bool(std::any_of(affixes.begin(), affixes.end(), matches), true);
}

Value StartswithMethod(Runtime& r, const Value& s, const Args& a) {
  return Affix(r, s, a, true);
}
Value EndswithMethod(Runtime& r, const Value& s, const Args& a) {
  return Affix(r, s, a, false);
}

Value RemoveprefixMethod(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = BindArgs(runtime, "removeprefix", args, {"prefix"}, 1);
  const std::string_view prefix = TextArg(runtime, *bound[0]);
  const bool hit = self.Text().substr(0, prefix.size()) == prefix;
  return runtime.NewSubstring(*self.string, hit ? prefix.size() : 0, self.string->size());
}

Value RemovesuffixMethod(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = BindArgs(runtime, "removesuffix", args, {"suffix"}, 1);
  const std::string_view suffix = TextArg(runtime, *bound[0]);
  const size_t size = self.string->size();
  const bool hit = size >= suffix.size() && self.Text().substr(size - suffix.size()) == suffix;
  return runtime.NewSubstring(*self.string, 0, size - (hit ? suffix.size() : 0));
}

Value UpperMethod(Runtime& r, const Value& s, const Args& a) {
  BindArgs(r, "upper", a, {});
  return ChangeCase(r, *s.string, CaseOp::kUpper);
}
Value LowerMethod(Runtime& r, const Value& s, const Args& a) {
  BindArgs(r, "lower", a, {});
  return ChangeCase(r, *s.string, CaseOp::kLower);
}
Value CapitalizeMethod(Runtime& r, const Value& s, const Args& a) {
  BindArgs(r, "capitalize", a, {});
  return ChangeCase(r, *s.string, CaseOp::kCapitalize);
}
Value TitleMethod(Runtime& r, const Value& s, const Args& a) {
  BindArgs(r, "title", a, {});
  return ChangeCase(r, *s.string, CaseOp::kTitleMethod);
}
Value SwapcaseMethod(Runtime& r, const Value& s, const Args& a) {
  BindArgs(r, "swapcase", a, {});
  return ChangeCase(r, *s.string, CaseOp::kSwap);
}

Value ReplaceMethod(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = BindArgs(runtime, "replace", args, {"old", "new", "count"}, 2);
  TextArg(runtime, *bound[1]);
  return ReplaceText(runtime, *self.string, TextArg(runtime, *bound[0]), *bound[1]->string,
                     LimitArg(runtime, bound[2]));
}

// find, rfind, index, rindex: positions in code points; optional start and end.
struct Found {
  int64_t position;  // -1: absent
};
Found Search(Runtime& runtime, const Value& self, const Args& args, bool from_right) {
  const auto bound = BindArgs(runtime, "find", args, {"sub", "start", "end"}, 1);
  const std::string_view needle = TextArg(runtime, *bound[0]);
  const SliceBounds bounds{bound[1] == nullptr ? Value::None() : *bound[1],
                           bound[2] == nullptr ? Value::None() : *bound[2], Value::None()};
  std::string_view text = self.Text();
  int64_t base = 0;
  if (!bounds.start.IsNone() || !bounds.stop.IsNone()) {
    const auto length = static_cast<int64_t>(CountCodePoints(text));
    if (!bounds.start.IsNone()) {
      base = ToInteger(runtime, bounds.start, "a position");
      base = std::clamp<int64_t>(base < -length ? 0 : base < 0 ? base + length : base, 0, length);
      if (bounds.start.integer > length) return {-1};
    }
    text = GetSlice(runtime, self, bounds).Text();
  }
  runtime.Work(1 + text.size() / 16);
  const size_t hit = from_right ? text.rfind(needle) : text.find(needle);
  if (hit == std::string_view::npos) return {-1};
  return {base + static_cast<int64_t>(CountCodePoints(text.substr(0, hit)))};
}

Value FindMethodBody(Runtime& r, const Value& s, const Args& a) {
  return Value::Int(Search(r, s, a, false).position, true);
}
Value RfindMethod(Runtime& r, const Value& s, const Args& a) {
  return Value::Int(Search(r, s, a, true).position, true);
}
Value IndexMethod(Runtime& r, const Value& s, const Args& a) {
  const Found found = Search(r, s, a, false);
  if (found.position < 0) r.Raise("substring not found");
  return Value::Int(found.position, true);
}
Value RindexMethod(Runtime& r, const Value& s, const Args& a) {
  const Found found = Search(r, s, a, true);
  if (found.position < 0) r.Raise("substring not found");
  return Value::Int(found.position, true);
}

Value CountMethod(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = BindArgs(runtime, "count", args, {"sub"}, 1);
  const std::string_view needle = TextArg(runtime, *bound[0]);
  runtime.Work(1 + self.string->size() / 8);
  if (needle.empty()) {
    return Value::Int(static_cast<int64_t>(CountCodePoints(self.Text())) + 1, true);
  }
  int64_t count = 0;
  for (size_t pos = 0; (pos = self.Text().find(needle, pos)) != std::string_view::npos;
       pos += needle.size()) {
    ++count;
  }
  return Value::Int(count, true);
}

Value JoinMethod(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = BindArgs(runtime, "join", args, {"iterable"}, 1);
  TextBuilder out(runtime);
  size_t i = 0;
  for (const Value& item : Items(runtime, *bound[0])) {
    if (!item.IsString()) {
      runtime.Raise("sequence item {}: expected str instance, {} found", i, TypeName(item));
    }
    if (i++ != 0) out.Append(*self.string);
    out.Append(*item.string);
  }
  return out.Finish();
}

Value FormatMethod(Runtime& runtime, const Value& self, const Args& args) {
  return BraceFormat(runtime, *self.string, args);
}

template <bool (*Test)(char32_t)>
Value AllCharacters(Runtime& runtime, const Value& self, const Args& args) {
  BindArgs(runtime, "this test", args, {});
  const std::string_view text = self.Text();
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = DecodeUtf8(text, pos);
    if (!Test(c.code)) return Value::Bool(false, true);
    pos += c.size;
  }
  return Value::Bool(!text.empty(), true);
}

bool IsAlnum(char32_t code) {
  return IsAlpha(code) || IsDigit(code);
}

// isupper and islower: some cased character, and none of the other case.
template <bool (*Wanted)(char32_t), bool (*Other)(char32_t)>
Value OneCase(Runtime& runtime, const Value& self, const Args& args) {
  BindArgs(runtime, "this test", args, {});
  const std::string_view text = self.Text();
  bool any = false;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = DecodeUtf8(text, pos);
    if (Other(c.code)) return Value::Bool(false, true);
    any = any || Wanted(c.code);
    pos += c.size;
  }
  return Value::Bool(any, true);
}

Value IsasciiMethod(Runtime&, const Value& self, const Args&) {
  return Value::Bool(IsAscii(self.Text()), true);
}

Value Pad(Runtime& runtime, const Value& self, const Args& args, int left_of_two) {
  const auto bound = BindArgs(runtime, "ljust", args, {"width", "fillchar"}, 1);
  const int64_t width = ToInteger(runtime, *bound[0], "the width");
  const std::string_view fill = bound[1] == nullptr ? " " : TextArg(runtime, *bound[1]);
  const auto length = static_cast<int64_t>(CountCodePoints(self.Text()));
  const auto missing = width > length ? static_cast<size_t>(width - length) : size_t{0};
  // Python's center puts the odd blank left when the width is odd.
  const size_t left = left_of_two == 1   ? missing / 2 + (missing & static_cast<size_t>(width) & 1)
                      : left_of_two == 2 ? missing
                                         : 0;
  const bool data = bound[1] != nullptr && CarriesData(*bound[1]);
  TextBuilder out(runtime);
  out.Repeat(fill, left, data);
  out.Append(*self.string);
  out.Repeat(fill, missing - left, data);
  return out.Finish();
}

Value LjustMethod(Runtime& r, const Value& s, const Args& a) {
  return Pad(r, s, a, 0);
}
Value CenterMethod(Runtime& r, const Value& s, const Args& a) {
  return Pad(r, s, a, 1);
}
Value RjustMethod(Runtime& r, const Value& s, const Args& a) {
  return Pad(r, s, a, 2);
}

Value ZfillMethod(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = BindArgs(runtime, "zfill", args, {"width"}, 1);
  const int64_t width = ToInteger(runtime, *bound[0], "the width");
  const auto length = static_cast<int64_t>(CountCodePoints(self.Text()));
  const bool sign = !self.string->empty() && (self.Text()[0] == '-' || self.Text()[0] == '+');
  TextBuilder out(runtime);
  out.Append(*self.string, 0, sign ? 1 : 0);
  out.Repeat("0", width > length ? static_cast<size_t>(width - length) : 0, CarriesData(self));
  out.Append(*self.string, sign ? 1 : 0, self.string->size());
  return out.Finish();
}

constexpr auto kMethods = std::to_array<MethodEntry>({
    {"capitalize", CapitalizeMethod},
    {"center", CenterMethod},
    {"count", CountMethod},
    {"endswith", EndswithMethod},
    {"find", FindMethodBody},
    {"format", FormatMethod},
    {"index", IndexMethod},
    {"isalnum", AllCharacters<IsAlnum>},
    {"isalpha", AllCharacters<IsAlpha>},
    {"isascii", IsasciiMethod},
    {"isdecimal", AllCharacters<IsDigit>},
    {"isdigit", AllCharacters<IsDigit>},
    {"islower", OneCase<IsLower, IsUpper>},
    {"isnumeric", AllCharacters<IsDigit>},
    {"isspace", AllCharacters<IsSpace>},
    {"isupper", OneCase<IsUpper, IsLower>},
    {"join", JoinMethod},
    {"ljust", LjustMethod},
    {"lower", LowerMethod},
    {"lstrip", LstripMethod},
    {"partition", PartitionMethod},
    {"removeprefix", RemoveprefixMethod},
    {"removesuffix", RemovesuffixMethod},
    {"replace", ReplaceMethod},
    {"rfind", RfindMethod},
    {"rindex", RindexMethod},
    {"rjust", RjustMethod},
    {"rpartition", RpartitionMethod},
    {"rsplit", RsplitMethod},
    {"rstrip", RstripMethod},
    {"split", SplitMethod},
    {"splitlines", SplitlinesMethod},
    {"startswith", StartswithMethod},
    {"strip", StripMethod},
    {"swapcase", SwapcaseMethod},
    {"title", TitleMethod},
    {"upper", UpperMethod},
    {"zfill", ZfillMethod},
});

}  // namespace

const MethodEntry* FindStringMethod(std::string_view name) {
  const auto found = std::find_if(kMethods.begin(), kMethods.end(),
                                  [&](const MethodEntry& entry) { return entry.name == name; });
  return found == kMethods.end() ? nullptr : &*found;
}

}  // namespace hadal::jinja
