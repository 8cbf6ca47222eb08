// Filters over sequences and mappings.
#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "chat/filters.h"
#include "chat/operators.h"
#include "chat/text_ops.h"
#include "chat/value_text.h"

namespace hadal::jinja {
namespace {

bool Flag(const Value* value, bool otherwise = false) {
  return value == nullptr ? otherwise : Truthy(*value);
}

// "a.b.0", or an integer, applied step by step.
Value Path(Runtime& runtime, const Value& item, const Value& path) {
  if (!path.IsString()) return GetItem(runtime, item, path);
  const std::string_view text = path.Text();
  Value value = item;
  for (size_t pos = 0; pos <= text.size();) {
    const size_t dot = std::min(text.find('.', pos), text.size());
    const std::string_view part = text.substr(pos, dot - pos);
    int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number = error == std::errc() && end == part.data() + part.size() && part[0] != '-';
    value = GetItem(runtime, value, number ? Value::Int(index) : runtime.NewString(part, true));
    pos = dot + 1;
  }
  return value;
}

Value PathOr(Runtime& runtime, const Value& item, const Value* path, const Value* otherwise) {
  if (path == nullptr || path->IsNone()) return item;
  const Value value = Path(runtime, item, *path);
  return value.IsUndefined() && otherwise != nullptr ? *otherwise : value;
}

// The lazy filters see nothing in a false value, be it iterable or not.
std::vector<Value> LazyItems(Runtime& runtime, const Value& input) {
  return Truthy(input) ? Items(runtime, input) : std::vector<Value>();
}

// What sort, unique, min, max and groupby compare by.
Value SortKey(Runtime& runtime, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.IsString()) return value;
  return ChangeCase(runtime, *value.string, CaseOp::kLower);
}

struct Keyed {
  Value item;
  std::vector<Value> keys;
};

void SortKeyed(Runtime& runtime, std::vector<Keyed>& items, bool reverse) {
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    const Keyed& low = reverse ? b : a;
    const Keyed& high = reverse ? a : b;
    for (size_t i = 0; i < low.keys.size(); ++i) {
      if (!Equal(runtime, low.keys[i], high.keys[i])) {
        return Order(runtime, low.keys[i], high.keys[i]) < 0;
      }
    }
    return false;
  });
}

Value ItemsOf(Runtime& runtime, const std::vector<Keyed>& keyed) {
  std::vector<Value> items;
  for (const Keyed& k : keyed) items.push_back(k.item);
  return runtime.NewList(std::move(items));
}

Value LengthFilter(Runtime& runtime, const Value& input, const Args&) {
  return Value::Int(static_cast<int64_t>(Length(runtime, input)), true);
}

Value Default(Runtime& runtime, const Value& input, const Args& args) {
  const auto bound = BindArgs(runtime, "default", args, {"default_value", "boolean"});
  const bool missing = input.IsUndefined() || (Flag(bound[1]) && !Truthy(input));
  if (!missing) return input;
  return bound[0] == nullptr ? runtime.NewString("", false) : *bound[0];
}

Value ListFilter(Runtime& runtime, const Value& input, const Args&) {
  return runtime.NewList(Items(runtime, input));
}

Value First(Runtime& runtime, const Value& input, const Args&) {
  const List& list = ItemList(runtime, input);
  return list.items.empty() ? runtime.NewUndefined("No first item, sequence was empty.")
                            : list.items.front();
}

Value Last(Runtime& runtime, const Value& input, const Args&) {
  const List& list = ItemList(runtime, input);
  return list.items.empty() ? runtime.NewUndefined("No last item, sequence was empty.")
                            : list.items.back();
}

Value Join(Runtime& runtime, const Value& input, const Args& args) {
  const auto bound = BindArgs(runtime, "join", args, {"d", "attribute"});
  const Value separator =
      bound[0] == nullptr ? runtime.NewString("", false) : ToText(runtime, *bound[0]);
  TextBuilder out(runtime);
  bool first = true;
  for (const Value& item : Items(runtime, input)) {
    if (!first) out.Append(*separator.string);
    first = false;
    AppendText(runtime, PathOr(runtime, item, bound[1], nullptr), out);
  }
  return out.Finish();
}

Args RestOf(const Args& args, size_t skip) {
  Args rest;
  rest.named = args.named;
  for (size_t i = skip; i < args.positional.size(); ++i) {
    rest.positional.push_back(args.positional[i]);
  }
  return rest;
}

std::string_view NameArg(Runtime& runtime, const Value& value) {
  if (!value.IsString()) runtime.Raise("a name is expected, not {}", TypeName(value));
  return value.Text();
}

Value Map(Runtime& runtime, const Value& input, const Args& args) {
  std::vector<Value> mapped;
  if (args.positional.empty()) {
    const auto bound = BindArgs(runtime, "map", args, {"attribute", "default"}, 1);
    for (const Value& item : LazyItems(runtime, input)) {
      mapped.push_back(PathOr(runtime, item, bound[0], bound[1]));
    }
  } else {
    const std::string_view name = NameArg(runtime, args.positional[0]);
    const Args rest = RestOf(args, 1);
    for (const Value& item : LazyItems(runtime, input)) {
      mapped.push_back(ApplyFilter(runtime, name, item, rest));
    }
  }
  return runtime.NewList(std::move(mapped), Type::kIterator);
}

Value Choose(Runtime& runtime, const Value& input, const Args& args, bool by_attribute,
             bool wanted) {
  if (by_attribute && args.positional.empty()) runtime.Raise("missing the attribute's name");
  const size_t skip = by_attribute ? 1 : 0;
  const bool has_test = args.positional.size() > skip;
  const std::string_view test = has_test ? NameArg(runtime, args.positional[skip]) : "";
  const Args rest = RestOf(args, skip + 1);
  std::vector<Value> chosen;
  for (const Value& item : LazyItems(runtime, input)) {
    const Value value = by_attribute ? Path(runtime, item, args.positional[0]) : item;
    const bool holds = has_test ? ApplyTest(runtime, test, value, rest) : Truthy(value);
    if (holds == wanted) chosen.push_back(item);
  }
  return runtime.NewList(std::move(chosen), Type::kIterator);
}

Value Select(Runtime& r, const Value& in, const Args& a) {
  return Choose(r, in, a, false, true);
}
Value Reject(Runtime& r, const Value& in, const Args& a) {
  return Choose(r, in, a, false, false);
}
Value Selectattr(Runtime& r, const Value& in, const Args& a) {
  return Choose(r, in, a, true, true);
}
Value Rejectattr(Runtime& r, const Value& in, const Args& a) {
  return Choose(r, in, a, true, false);
}

Value Sort(Runtime& runtime, const Value& input, const Args& args) {
  const auto bound = BindArgs(runtime, "sort", args, {"reverse", "case_sensitive", "attribute"});
  std::vector<Value> paths;
  if (bound[2] != nullptr && bound[2]->IsString()) {
    const std::string_view comma = ",";
    for (const ByteRange& part : SplitRanges(runtime, bound[2]->Text(), &comma, -1, false)) {
      paths.push_back(runtime.NewSubstring(*bound[2]->string, part.begin, part.end));
    }
  } else if (bound[2] != nullptr && !bound[2]->IsNone()) {
    paths.push_back(*bound[2]);
  }
  std::vector<Keyed> keyed;
  for (const Value& item : Items(runtime, input)) {
    Keyed entry{item, {}};
    for (const Value& path : paths) entry.keys.push_back(Path(runtime, item, path));
    if (paths.empty()) entry.keys.push_back(item);
    for (Value& key : entry.keys) key = SortKey(runtime, key, Flag(bound[1]));
    runtime.Memory(sizeof(Keyed) + entry.keys.size() * sizeof(Value));
    keyed.push_back(std::move(entry));
  }
  SortKeyed(runtime, keyed, Flag(bound[0]));
  return ItemsOf(runtime, keyed);
}

Value Unique(Runtime& runtime, const Value& input, const Args& args) {
  const auto bound = BindArgs(runtime, "unique", args, {"case_sensitive", "attribute"});
  const Value seen = runtime.NewDict();
  std::vector<Value> unique;
  for (const Value& item : Items(runtime, input)) {
    const Value key = SortKey(runtime, PathOr(runtime, item, bound[1], nullptr), Flag(bound[0]));
    const size_t before = seen.dict->entries().size();
    runtime.SetItem(*seen.dict, key, Value::None());
    if (seen.dict->entries().size() != before) unique.push_back(item);
  }
  return runtime.NewList(std::move(unique), Type::kIterator);
}

Value Extreme(Runtime& runtime, const Value& input, const Args& args, bool maximum) {
  const auto bound =
      BindArgs(runtime, maximum ? "max" : "min", args, {"case_sensitive", "attribute"});
  bool first = true;
  Value best;
  Value best_key;
  for (const Value& item : Items(runtime, input)) {
    const Value key = SortKey(runtime, PathOr(runtime, item, bound[1], nullptr), Flag(bound[0]));
    const int order = first ? 0 : Order(runtime, key, best_key);
    if (first || (maximum ? order > 0 : order < 0)) {
      best = item;
      best_key = key;
    }
    first = false;
  }
  return first ? runtime.NewUndefined("No aggregated item, sequence was empty.") : best;
}

Value Min(Runtime& r, const Value& in, const Args& a) {
  return Extreme(r, in, a, false);
}
Value Max(Runtime& r, const Value& in, const Args& a) {
  return Extreme(r, in, a, true);
}

Value Sum(Runtime& runtime, const Value& input, const Args& args) {
  const auto bound = BindArgs(runtime, "sum", args, {"attribute", "start"});
  Value total = bound[1] == nullptr ? Value::Int(0) : *bound[1];
  for (const Value& item : Items(runtime, input)) {
    total = Arithmetic(runtime, Op::kAdd, total, PathOr(runtime, item, bound[0], nullptr));
  }
  return total;
}

Value ReverseFilter(Runtime& runtime, const Value& input, const Args&) {
  std::vector<Value> items = Items(runtime, input);
  std::reverse(items.begin(), items.end());
  if (!input.IsString()) return runtime.NewList(std::move(items), Type::kIterator);
  TextBuilder out(runtime);
  for (const Value& item : items) out.Append(*item.string);
  return out.Finish();
}

Value Pair(Runtime& runtime, const Value& first, const Value& second) {
  return runtime.NewList({first, second}, Type::kTuple);
}

Value ItemsFilter(Runtime& runtime, const Value& input, const Args&) {
  std::vector<Value> pairs;
  if (!input.IsDict() && !input.IsUndefined()) {
    runtime.Raise("Can only get item pairs from a mapping.");
  }
  if (input.IsDict()) {
    for (const auto& entry : input.dict->entries()) {
      pairs.push_back(Pair(runtime, entry.key, entry.value));
    }
  }
  return runtime.NewList(std::move(pairs), Type::kIterator);
}

Value Dictsort(Runtime& runtime, const Value& input, const Args& args) {
  const auto bound = BindArgs(runtime, "dictsort", args, {"case_sensitive", "by", "reverse"});
  if (!input.IsDict()) runtime.Raise("dictsort needs a dict, not {}", TypeName(input));
  const std::string_view by = bound[1] == nullptr ? "key" : NameArg(runtime, *bound[1]);
  if (by != "key" && by != "value")
    runtime.Raise("You can only sort by either \"key\" or \"value\"");
  std::vector<Keyed> keyed;
  for (const auto& entry : input.dict->entries()) {
    const Value& key = by == "key" ? entry.key : entry.value;
    keyed.push_back(
        {Pair(runtime, entry.key, entry.value), {SortKey(runtime, key, Flag(bound[0]))}});
  }
  SortKeyed(runtime, keyed, Flag(bound[2]));
  return ItemsOf(runtime, keyed);
}

Value Batch(Runtime& runtime, const Value& input, const Args& args) {
  const auto bound = BindArgs(runtime, "batch", args, {"linecount", "fill_with"}, 1);
  const int64_t size = ToInteger(runtime, *bound[0], "the line count");
  if (size < 1) runtime.Raise("batch: the line count must be positive");
  std::vector<Value> batches;
  std::vector<Value> line;
  for (const Value& item : Items(runtime, input)) {
    line.push_back(item);
    if (static_cast<int64_t>(line.size()) == size) {
      batches.push_back(runtime.NewList(std::exchange(line, {})));
    }
  }
  if (!line.empty()) {
    while (bound[1] != nullptr && !bound[1]->IsNone() && static_cast<int64_t>(line.size()) < size) {
      runtime.Memory(2 * sizeof(Value));
      line.push_back(*bound[1]);
    }
    batches.push_back(runtime.NewList(std::move(line)));
  }
  return runtime.NewList(std::move(batches), Type::kIterator);
}

Value Groupby(Runtime& runtime, const Value& input, const Args& args) {
  const auto bound =
      BindArgs(runtime, "groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  std::vector<Keyed> keyed;
  for (const Value& item : Items(runtime, input)) {
    const Value value = PathOr(runtime, item, bound[0], bound[1]);
    runtime.Memory(sizeof(Keyed) + 2 * sizeof(Value));
    keyed.push_back({item, {SortKey(runtime, value, Flag(bound[2]))}});
  }
  SortKeyed(runtime, keyed, false);
  std::vector<Value> groups;
  for (size_t i = 0; i < keyed.size();) {
    std::vector<Value> members;
    const size_t begin = i;
    for (; i < keyed.size() && Equal(runtime, keyed[i].keys[0], keyed[begin].keys[0]); ++i) {
      members.push_back(keyed[i].item);
    }
    if (i == begin) members.push_back(keyed[i++].item);  // not equal to itself: NaN
    const Value key = PathOr(runtime, keyed[begin].item, bound[0], bound[1]);
    groups.push_back(Pair(runtime, key, runtime.NewList(std::move(members))));
  }
  return runtime.NewList(std::move(groups));
}

Value Attr(Runtime& runtime, const Value& input, const Args& args) {
  const auto bound = BindArgs(runtime, "attr", args, {"name"}, 1);
  return GetAttribute(runtime, input, NameArg(runtime, *bound[0]));
}

struct Entry {
  std::string_view name;
  FilterBody body;
};

constexpr auto kFilters = std::to_array<Entry>({
    {"attr", Attr},
    {"batch", Batch},
    {"count", LengthFilter},
    {"d", Default},
    {"default", Default},
    {"dictsort", Dictsort},
    {"first", First},
    {"groupby", Groupby},
    {"items", ItemsFilter},
    {"join", Join},
    {"last", Last},
    {"length", LengthFilter},
    {"list", ListFilter},
    {"map", Map},
    {"max", Max},
    {"min", Min},
    {"reject", Reject},
    {"rejectattr", Rejectattr},
    {"reverse", ReverseFilter},
    {"select", Select},
    {"selectattr", Selectattr},
    {"sort", Sort},
    {"sum", Sum},
    {"unique", Unique},
});

}  // namespace

FilterBody FindListFilter(std::string_view name) {
  const auto found = std::find_if(kFilters.begin(), kFilters.end(),
                                  [&](const Entry& entry) { return entry.name == name; });
  return found == kFilters.end() ? nullptr : found->body;
}

bool HasFilter(std::string_view name) {
  return FindTextFilter(name) != nullptr || FindListFilter(name) != nullptr;
}

Value ApplyFilter(Runtime& runtime, std::string_view name, const Value& input, const Args& args) {
  FilterBody body = FindTextFilter(name);
  if (body == nullptr) body = FindListFilter(name);
  if (body == nullptr) runtime.Raise("No filter named '{}'.", name);
  runtime.Work(1 + (input.IsString() ? input.string->size() / 16 : 0));
  return body(runtime, input, args);
}

}  // namespace hadal::jinja
