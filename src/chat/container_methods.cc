// Methods of lists, tuples, dicts and loops.
#include <algorithm>
#include <array>
#include <span>

#include "chat/methods.h"
#include "chat/operators.h"

namespace hadal::jinja {
namespace {

Value Append(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = BindArgs(runtime, "append", args, {"object"}, 1);
  runtime.Push(*self.list, *bound[0]);
  return Value::None();
}

Value Extend(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = BindArgs(runtime, "extend", args, {"iterable"}, 1);
  for (const Value& item : Items(runtime, *bound[0])) runtime.Push(*self.list, item);
  return Value::None();
}

Value Insert(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = BindArgs(runtime, "insert", args, {"index", "object"}, 2);
  std::vector<Value>& items = self.list->items;
  const auto size = static_cast<int64_t>(items.size());
  int64_t index = ToInteger(runtime, *bound[0], "the index");
  index = std::clamp<int64_t>(index < 0 ? std::max<int64_t>(index, -size) + size : index, 0, size);
  runtime.Work(1 + items.size() / 8);
  runtime.Memory(2 * sizeof(Value));
  items.insert(items.begin() + index, *bound[1]);
  return Value::None();
}

Value ListPop(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = BindArgs(runtime, "pop", args, {"index"});
  std::vector<Value>& items = self.list->items;
  const auto size = static_cast<int64_t>(items.size());
  int64_t index = bound[0] == nullptr ? -1 : ToInteger(runtime, *bound[0], "the index");
  if (index < 0 && index >= -size) index += size;
  if (index < 0 || index >= size) runtime.Raise("pop index out of range");
  runtime.Work(1 + items.size() / 8);
  const Value item = items[static_cast<size_t>(index)];
  items.erase(items.begin() + index);
  return item;
}

// Position of an equal item, or -1.
int64_t PositionOf(Runtime& runtime, const List& list, const Value& wanted) {
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (Equal(runtime, list.items[i], wanted)) return static_cast<int64_t>(i);
  }
  return -1;
}

Value ListIndex(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = BindArgs(runtime, "index", args, {"value"}, 1);
  const int64_t position = PositionOf(runtime, *self.list, *bound[0]);
  if (position < 0) runtime.Raise("the value is not in the list");
  return Value::Int(position, true);
}

Value ListCount(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = BindArgs(runtime, "count", args, {"value"}, 1);
  int64_t count = 0;
  for (const Value& item : self.list->items) count += Equal(runtime, item, *bound[0]) ? 1 : 0;
  return Value::Int(count, true);
}

Value Remove(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = BindArgs(runtime, "remove", args, {"value"}, 1);
  const int64_t position = PositionOf(runtime, *self.list, *bound[0]);
  if (position < 0) runtime.Raise("the value is not in the list");
  self.list->items.erase(self.list->items.begin() + position);
  return Value::None();
}

Value Reverse(Runtime& runtime, const Value& self, const Args& args) {
  runtime.Work(1 + self.list->items.size() / 4);
  std::reverse(self.list->items.begin(), self.list->items.end());
  return Value::None();
}

Value ListClear(Runtime&, const Value& self, const Args&) {
  self.list->items.clear();
  return Value::None();
}

Value ListCopy(Runtime& runtime, const Value& self, const Args&) {
  return runtime.NewList(Items(runtime, self));
}

Value Pair(Runtime& runtime, const Dict::Entry& entry) {
  return runtime.NewList({entry.key, entry.value}, Type::kTuple);
}

Value DictItems(Runtime& runtime, const Value& self, const Args&) {
  std::vector<Value> items;
  for (const Dict::Entry& entry : self.dict->entries()) items.push_back(Pair(runtime, entry));
  return runtime.NewList(std::move(items));
}

Value DictKeys(Runtime& runtime, const Value& self, const Args&) {
  return runtime.NewList(Items(runtime, self));
}

Value DictValues(Runtime& runtime, const Value& self, const Args&) {
  std::vector<Value> values;
  runtime.Memory(self.dict->entries().size() * sizeof(Value));
  for (const Dict::Entry& entry : self.dict->entries()) values.push_back(entry.value);
  return runtime.NewList(std::move(values));
}

Value DictGet(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = BindArgs(runtime, "get", args, {"key", "default"}, 1);
  runtime.Work(1 + (bound[0]->IsString() ? bound[0]->string->size() / 16 : 0));
  if (const Value* found = self.dict->Find(*bound[0])) return *found;
  return bound[1] == nullptr ? Value::None() : *bound[1];
}

Value DictSetdefault(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = BindArgs(runtime, "setdefault", args, {"key", "default"}, 1);
  if (const Value* found = self.dict->Find(*bound[0])) return *found;
  const Value value = bound[1] == nullptr ? Value::None() : *bound[1];
  runtime.SetItem(*self.dict, *bound[0], value);
  return value;
}

Value DictUpdate(Runtime& runtime, const Value& self, const Args& args) {
  if (args.positional.size() > 1) runtime.Raise("update() takes at most 1 argument");
  if (!args.positional.empty()) {
    const Value& other = args.positional[0];
    if (!other.IsDict()) runtime.Raise("update() needs a dict, not {}", TypeName(other));
    const std::vector<Dict::Entry> entries = other.dict->entries();
    for (const Dict::Entry& entry : entries) runtime.SetItem(*self.dict, entry.key, entry.value);
  }
  for (const auto& [name, value] : args.named) {
    runtime.SetItem(*self.dict, runtime.NewString(name, false), value);
  }
  return Value::None();
}

Value DictPop(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = BindArgs(runtime, "pop", args, {"key", "default"}, 1);
  if (const Value* found = self.dict->Find(*bound[0])) {
    const Value value = *found;
    // Rebuilding the index costs its size times the logarithm.
    runtime.Work(1 + self.dict->entries().size() * 4);
    self.dict->Erase(*bound[0]);
    return value;
  }
  if (bound[1] == nullptr) runtime.Raise("pop(): the key is not in the dict");
  return *bound[1];
}

Value DictClear(Runtime&, const Value& self, const Args&) {
  self.dict->Clear();
  return Value::None();
}

Value DictCopy(Runtime& runtime, const Value& self, const Args&) {
  const Value copy = runtime.NewDict();
  for (const Dict::Entry& entry : self.dict->entries()) {
    runtime.SetItem(*copy.dict, entry.key, entry.value);
  }
  return copy;
}

Value LoopCycle(Runtime& runtime, const Value& self, const Args& args) {
  if (args.positional.empty()) runtime.Raise("no items for cycling given");
  return args.positional[self.loop->index % args.positional.size()];
}

Value LoopChanged(Runtime& runtime, const Value& self, const Args& args) {
  Loop& loop = *self.loop;
  bool same = loop.has_last_changed && loop.last_changed.size() == args.positional.size();
  for (size_t i = 0; same && i < args.positional.size(); ++i) {
    same = Equal(runtime, loop.last_changed[i], args.positional[i]);
  }
  loop.last_changed = args.positional;
  loop.has_last_changed = true;
  return Value::Bool(!same);
}

Value CyclerNext(Runtime&, const Value& self, const Args&) {
  Cycler& cycler = *self.cycler;
  const Value item = cycler.items[cycler.index];
  cycler.index = (cycler.index + 1) % cycler.items.size();
  return item;
}

Value CyclerReset(Runtime&, const Value& self, const Args&) {
  self.cycler->index = 0;
  return Value::None();
}

constexpr auto kTupleMethods = std::to_array<MethodEntry>({
    {"count", ListCount},
    {"index", ListIndex},
});

constexpr auto kListMethods = std::to_array<MethodEntry>({
    {"append", Append},
    {"clear", ListClear},
    {"copy", ListCopy},
    {"count", ListCount},
    {"extend", Extend},
    {"index", ListIndex},
    {"insert", Insert},
    {"pop", ListPop},
    {"remove", Remove},
    {"reverse", Reverse},
});

constexpr auto kDictMethods = std::to_array<MethodEntry>({
    {"clear", DictClear},
    {"copy", DictCopy},
    {"get", DictGet},
    {"items", DictItems},
    {"keys", DictKeys},
    {"pop", DictPop},
    {"setdefault", DictSetdefault},
    {"update", DictUpdate},
    {"values", DictValues},
});

constexpr auto kLoopMethods = std::to_array<MethodEntry>({
    {"changed", LoopChanged},
    {"cycle", LoopCycle},
});

constexpr auto kCyclerMethods = std::to_array<MethodEntry>({
    {"next", CyclerNext},
    {"reset", CyclerReset},
});

}  // namespace

const MethodEntry* FindMethod(const Value& self, std::string_view name) {
  std::span<const MethodEntry> methods;
  switch (self.type) {
    case Type::kString:
      return FindStringMethod(name);
    case Type::kList:
      methods = kListMethods;
      break;
    case Type::kTuple:
      methods = kTupleMethods;
      break;
    case Type::kDict:
      methods = kDictMethods;
      break;
    case Type::kLoop:
      methods = kLoopMethods;
      break;
    case Type::kCycler:
      methods = kCyclerMethods;
      break;
    default:
      return nullptr;
  }
  const auto found = std::find_if(methods.begin(), methods.end(),
                                  [&](const MethodEntry& entry) { return entry.name == name; });
  return found == methods.end() ? nullptr : &*found;
}

}  // namespace hadal::jinja
